/* Scores rows with a SavedModel through TensorFlow's C API.
 *
 *   score MODEL FEEDS               prints the first output, a number a line
 *   score MODEL FEEDS --repeat N    prints the nanoseconds that each of N runs takes
 *
 * FEEDS is a text file. Its first line names the tensor to fetch. Then comes each tensor to feed: a
 * line with its name, its type (string or float) and the number of its values, and the values, one
 * a line; nan means missing.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

enum { MOST_FEEDS = 1024, LONGEST_NAME = 1024 };

typedef struct {
  TF_Output fetch;
  TF_Output places[MOST_FEEDS];
  TF_Tensor *values[MOST_FEEDS];
  int count;
} Request;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "score: %s: %s\n", what, why);
  exit(1);
}

static void check(const TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

static TF_Session *load(const char *model, TF_Graph *graph) {
  const char *tags[] = {"serve"};
  TF_Status *status = TF_NewStatus();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Session *session =
      TF_LoadSessionFromSavedModel(options, NULL, model, tags, 1, graph, NULL, status);
  check(status, model);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
  return session;
}

/* Finds a tensor by its name, such as "scores:1"; changes the text. */
static TF_Output find(TF_Graph *graph, char *name) {
  char *colon = strrchr(name, ':');
  TF_Output place = {NULL, 0};
  if (colon != NULL) {
    *colon = '\0';
    place.index = atoi(colon + 1);
  }
  place.oper = TF_GraphOperationByName(graph, name);
  if (place.oper == NULL) fail(name, "the graph has no such operation");
  if (place.index < 0 || place.index >= TF_OperationNumOutputs(place.oper))
    fail(name, "the operation has no such output");
  return place;
}

/* Reads a line without its end; returns its length, or -1 at the end of the file. */
static ssize_t read_line(FILE *file, char **line, size_t *capacity) {
  ssize_t length = getline(line, capacity, file);
  if (length > 0 && (*line)[length - 1] == '\n') (*line)[--length] = '\0';
  return length;
}

static float parse_float(const char *text) {
  char *end;
  float value = strtof(text, &end);
  if (end == text || *end != '\0') fail(text, "is no number");
  return value;
}

static void free_strings(void *data, size_t length, void *unused) {
  (void)unused;
  for (size_t i = 0; i < length / sizeof(TF_TString); i++)
    TF_StringDealloc((TF_TString *)data + i);
  free(data);
}

static void free_floats(void *data, size_t length, void *unused) {
  (void)length;
  (void)unused;
  free(data);
}

static TF_Tensor *read_values(FILE *file, int is_string, int64_t count, const char *name) {
  size_t size = (size_t)count * (is_string ? sizeof(TF_TString) : sizeof(float));
  void *data = malloc(size > 0 ? size : 1);
  char *line = NULL;
  size_t capacity = 0;
  if (data == NULL) fail(name, "there is not enough memory");
  for (int64_t i = 0; i < count; i++) {
    ssize_t length = read_line(file, &line, &capacity);
    if (length < 0) fail(name, "the file ends before its last value");
    if (is_string) {
      TF_TString *target = (TF_TString *)data + i;
      TF_StringInit(target);
      TF_StringCopy(target, line, (size_t)length);
    } else {
      ((float *)data)[i] = parse_float(line);
    }
  }
  free(line);
  TF_Tensor *tensor = TF_NewTensor(is_string ? TF_STRING : TF_FLOAT, &count, 1, data, size,
                                   is_string ? free_strings : free_floats, NULL);
  if (tensor == NULL) fail(name, "cannot be made a tensor");
  return tensor;
}

static void read_request(const char *path, TF_Graph *graph, Request *request) {
  FILE *file = fopen(path, "r");
  char *line = NULL, name[LONGEST_NAME], type[16];
  size_t capacity = 0;
  long long count;
  if (file == NULL) fail(path, strerror(errno));
  if (read_line(file, &line, &capacity) < 0) fail(path, "is empty");
  request->fetch = find(graph, line);
  request->count = 0;
  while (read_line(file, &line, &capacity) >= 0) {
    if (sscanf(line, "%1023s %15s %lld", name, type, &count) != 3 || count < 0)
      fail(line, "expected a name, a type and a number of values");
    int is_string = strcmp(type, "string") == 0;
    if (!is_string && strcmp(type, "float") != 0) fail(type, "expected string or float");
    if (request->count == MOST_FEEDS) fail(path, "has too many tensors");
    request->places[request->count] = find(graph, name);
    request->values[request->count++] = read_values(file, is_string, count, name);
  }
  if (ferror(file)) fail(path, "cannot be read");
  free(line);
  fclose(file);
}

static void free_request(Request *request) {
  for (int i = 0; i < request->count; i++) TF_DeleteTensor(request->values[i]);
}

/* Runs the model; the caller frees the tensor. */
static TF_Tensor *run(TF_Session *session, const Request *request, TF_Status *status) {
  TF_Tensor *output = NULL;
  TF_SessionRun(session, NULL, request->places, request->values, request->count, &request->fetch,
                &output, 1, NULL, 0, NULL, status);
  return output;
}

static void print_scores(TF_Session *session, const Request *request) {
  TF_Status *status = TF_NewStatus();
  TF_Tensor *output = run(session, request, status);
  check(status, "the run");
  if (TF_TensorType(output) != TF_FLOAT) fail("the output", "expected floats");
  const float *scores = TF_TensorData(output);
  for (int64_t i = 0; i < TF_TensorElementCount(output); i++) printf("%.9g\n", scores[i]);
  TF_DeleteTensor(output);
  TF_DeleteStatus(status);
}

static long long nanoseconds(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) fail("the clock", strerror(errno));
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void print_latencies(TF_Session *session, const Request *request, long count) {
  TF_Status *status = TF_NewStatus();
  for (long i = 0; i < count; i++) {
    long long began = nanoseconds();
    TF_Tensor *output = run(session, request, status);
    long long ended = nanoseconds();
    check(status, "the run");
    TF_DeleteTensor(output);
    printf("%lld\n", ended - began);
  }
  TF_DeleteStatus(status);
}

static void close_session(TF_Session *session) {
  TF_Status *status = TF_NewStatus();
  TF_CloseSession(session, status);
  check(status, "the session");
  TF_DeleteSession(session, status);
  check(status, "the session");
  TF_DeleteStatus(status);
}

static int usage(void) {
  fprintf(stderr, "usage: score MODEL FEEDS [--repeat N]\n");
  return 2;
}

int main(int argc, char **argv) {
  static Request request;
  long repeat = 0;
  if (argc != 3 && !(argc == 5 && strcmp(argv[3], "--repeat") == 0)) return usage();
  if (argc == 5) {
    char *end;
    repeat = strtol(argv[4], &end, 10);
    if (*end != '\0' || repeat < 1) return usage();
  }
  TF_Graph *graph = TF_NewGraph();
  TF_Session *session = load(argv[1], graph);
  read_request(argv[2], graph, &request);
  if (repeat > 0)
    print_latencies(session, &request, repeat);
  else
    print_scores(session, &request);
  free_request(&request);
  close_session(session);
  TF_DeleteGraph(graph);
  return 0;
}
