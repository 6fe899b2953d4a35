/* Times SavedModels against each other through TensorFlow's C API, with its default threads.
 *
 *   latency TURNS RUNS MODEL REQUEST [MODEL REQUEST ...]
 *
 * All models are loaded and take turns, so that noise hits them alike. A turn is so many runs of
 * each model, one model after the other, and prints a line a model: the nanoseconds of its runs.
 * Some runs come before them untimed, as in a server the caches belong to its own model, not to the
 * one that ran before; and before the first turn many.
 *
 * A request is a file of 32-bit integers, each text behind its length: the name of the tensor to
 * fetch, the number of tensors to feed, and for each its name, its type, the number of its
 * dimensions, these, and the values; strings again behind their lengths.
 */

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

enum { MOST_DIMENSIONS = 4, WARM_UP = 200, UNTIMED = 10 };

typedef struct {
  TF_Session *session;
  TF_Output fetch;
  TF_Output *places;
  TF_Tensor **values;
  int count;
} Model;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "latency: %s: %s\n", what, why);
  exit(1);
}

static void check(const TF_Status *status, const char *what) {
  if (TF_GetCode(status) != TF_OK) fail(what, TF_Message(status));
}

static void *allocate(size_t count, size_t size) {
  void *memory = calloc(count > 0 ? count : 1, size);
  if (memory == NULL) fail("memory", strerror(errno));
  return memory;
}

static void read_bytes(FILE *file, void *target, size_t size) {
  if (size > 0 && fread(target, size, 1, file) != 1) fail("a request", "ends too early");
}

static int32_t read_integer(FILE *file) {
  int32_t value;
  read_bytes(file, &value, sizeof value);
  return value;
}

/* Reads a text, which the caller frees, and its length. */
static char *read_text(FILE *file, int32_t *length) {
  *length = read_integer(file);
  char *text = allocate((size_t)*length + 1, 1);
  read_bytes(file, text, (size_t)*length);
  return text;
}

/* Reads the name of a tensor, such as "scores:1", and finds it. */
static TF_Output read_place(FILE *file, TF_Graph *graph) {
  int32_t length;
  char *name = read_text(file, &length);
  char *colon = strrchr(name, ':');
  TF_Output place = {NULL, 0};
  if (colon != NULL) {
    *colon = '\0';
    place.index = atoi(colon + 1);
  }
  place.oper = TF_GraphOperationByName(graph, name);
  if (place.oper == NULL) fail(name, "the graph has no such operation");
  free(name);
  return place;
}

static TF_Tensor *read_tensor(FILE *file) {
  TF_DataType type = (TF_DataType)read_integer(file);
  int dimensions = read_integer(file);
  int64_t shape[MOST_DIMENSIONS], count = 1;
  if (dimensions > MOST_DIMENSIONS) fail("a tensor", "has too many dimensions");
  for (int i = 0; i < dimensions; i++) count *= shape[i] = read_integer(file);
  size_t size = (size_t)count * (type == TF_STRING ? sizeof(TF_TString) : TF_DataTypeSize(type));
  TF_Tensor *tensor = TF_AllocateTensor(type, shape, dimensions, size);
  if (tensor == NULL) fail("a tensor", "cannot be allocated");
  if (type != TF_STRING) {
    read_bytes(file, TF_TensorData(tensor), size);
    return tensor;
  }
  TF_TString *strings = TF_TensorData(tensor);
  for (int64_t i = 0; i < count; i++) {
    int32_t length;
    char *text = read_text(file, &length);
    TF_StringInit(&strings[i]);
    TF_StringCopy(&strings[i], text, (size_t)length);
    free(text);
  }
  return tensor;
}

static void load(Model *model, const char *directory, const char *request) {
  const char *tags[] = {"serve"};
  TF_Status *status = TF_NewStatus();
  TF_SessionOptions *options = TF_NewSessionOptions();
  TF_Graph *graph = TF_NewGraph();
  model->session =
      TF_LoadSessionFromSavedModel(options, NULL, directory, tags, 1, graph, NULL, status);
  check(status, directory);
  TF_DeleteSessionOptions(options);
  TF_DeleteStatus(status);
  FILE *file = fopen(request, "rb");
  if (file == NULL) fail(request, strerror(errno));
  model->fetch = read_place(file, graph);
  model->count = read_integer(file);
  model->places = allocate((size_t)model->count, sizeof *model->places);
  model->values = allocate((size_t)model->count, sizeof *model->values);
  for (int i = 0; i < model->count; i++) {
    model->places[i] = read_place(file, graph);
    model->values[i] = read_tensor(file);
  }
  fclose(file);
}

static long long nanoseconds(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) fail("the clock", strerror(errno));
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Runs a model once; returns how long it took. */
static long long run(const Model *model, TF_Status *status) {
  TF_Tensor *output = NULL;
  long long began = nanoseconds();
  TF_SessionRun(model->session, NULL, model->places, model->values, model->count, &model->fetch,
                &output, 1, NULL, 0, NULL, status);
  long long ended = nanoseconds();
  check(status, "a run");
  TF_DeleteTensor(output);
  return ended - began;
}

int main(int argc, char **argv) {
  if (argc < 5 || argc % 2 == 0) {
    fprintf(stderr, "usage: latency TURNS RUNS MODEL REQUEST [MODEL REQUEST ...]\n");
    return 2;
  }
  long turns = atol(argv[1]), runs = atol(argv[2]);
  int count = (argc - 3) / 2;
  Model *models = allocate((size_t)count, sizeof *models);
  for (int i = 0; i < count; i++) load(&models[i], argv[3 + 2 * i], argv[4 + 2 * i]);
  TF_Status *status = TF_NewStatus();
  for (long turn = 0; turn < turns; turn++) {
    for (int i = 0; i < count; i++) {
      for (int j = 0; j < (turn > 0 ? UNTIMED : WARM_UP); j++) run(&models[i], status);
      for (long j = 0; j < runs; j++) printf("%lld ", run(&models[i], status));
      printf("\n");
    }
  }
  return 0; /* and the system takes back what is left */
}
