"""Serving: how long FIVES, its light model and a DNN take to score, and the test AUC they buy.

    python benchmarks/serving.py --work DIR --out benchmarks/results/serving.json

All three learn from the Criteo sample, by the split of `fives_tf.bench.protocol`, and make their
choices on its validation part: FIVES in its default form with one member, the light model of the
same run, and a DNN of the best of a few settings, which as FIVES learns from train and valid at
last. They become SavedModels with the same signatures and the same encoding within, and differ only
in what comes after the ids.

A program in C, `latency.c`, which gcc compiles, loads the three and runs them in turns as a server
would: with TensorFlow's default threads, on all cores, one request at a time. Requests are rows of
the test part of the log, through each of the signatures: raw columns, serialized examples, ids. The
test AUC, at the end, is that of the exported models on all raw rows of that part.

What was trained stays in the work directory; a second run only exports and measures again. After a
change to how models learn, choose another. Use it on an idle machine.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import numpy as np

from fives_tf.bench import protocol
from fives_tf.config import SearchConfig
from fives_tf.errors import UserError
from fives_tf.tables import print_table

DATASET = "criteo"
MODELS = ("fives", "light", "dnn")
SIGNATURES = ("serving_default", "examples", "ids")
BATCHES = (1, 32, 512)
TURNS, RUNS = 50, 60  # a turn is so many runs of one model, then of the next
DIM = 16  # of the DNN's embedding
MOST_SHARE = 0.5  # of the DNN's median latency at batch 1 that the light model may take
SEED = 0
PROGRAM = Path(__file__).with_name("latency.c")

# What is tried for the DNN: the learning rates of table and network, L2, dropout, most epochs.
# Wider trials before, on validation too, led to this region.
SETTINGS = (
    (1e-3, 3e-4, 1e-3, 0.3, 2),
    (1e-3, 3e-4, 1e-3, 0.5, 3),
    (1e-3, 3e-4, 3e-4, 0.3, 2),
    (1e-3, 1e-3, 1e-3, 0.5, 2),
)


def main() -> int:
    """The command line."""
    return harness.command_line("serving", run)


def run(argv: list[str] | None = None) -> dict[str, Any]:
    """Trains what is missing, measures, prints the tables and the verdicts, returns the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    protocol.add_data_flag(parser)
    parser.add_argument("--work", type=Path, required=True, help="where what is trained goes")
    parser.add_argument("--batches", type=_numbers, default=list(BATCHES), metavar="N,...")
    parser.add_argument("--turns", type=int, default=TURNS, help="turns that the models take")
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of a model in a turn")
    harness.add_out_flag(parser)
    harness.add_set_flag(parser)
    args = parser.parse_args(argv)
    config = SearchConfig.make(
        seed=SEED, members=1, **harness.read_set_flag(args.set, reserved=("seed", "members"))
    )
    protocol.check_data(DATASET, args.data)
    with tempfile.TemporaryDirectory() as temporary:
        program = compile_program(Path(temporary))
        dataset = protocol.prepare(DATASET, SEED, args.data, args.work)
        exports = Path(temporary, "exports")
        place = (dataset.directory, str(exports))
        made = harness.in_own_process(prepare, *place, str(args.work.resolve()), config)
        requests = Path(temporary, "requests")
        harness.in_own_process(write_requests, *place, str(args.data), str(requests), args.batches)
        load = os.getloadavg()[0]
        counts = (args.turns, args.runs)
        measured = list(measure_all(program, exports, requests, args.batches, counts))
        test = harness.in_own_process(test_figures, *place, str(args.data))
    print_measured(measured, test, args.batches)
    chosen = made["dnn"]["tried"][made["dnn"]["chosen"]]
    print(f"the DNN learned with {', '.join(f'{key} {value:g}' for key, value in chosen.items())}")
    criteria = judge(measured)
    for criterion in criteria:
        verdict = "reached" if criterion["reached"] else "NOT reached"
        print(f"{criterion['what']}: {criterion['value']:.2f}, {criterion['limit']}, {verdict}")
    result = {
        "dataset": DATASET,
        "seed": SEED,
        "turns": args.turns,
        "runs": args.runs,
        **made,
        "test": test,
        "measured": measured,
        "criteria": criteria,
        "machine": harness.machine() | {"load_before": round(load, 2)},
        "versions": harness.versions(harness.TRAINING),
    }
    harness.write_result(result, args.out)
    return result


def compile_program(directory: Path) -> Path:
    """Compiles the program that measures against the TensorFlow that is installed."""
    compiler = shutil.which("gcc")
    if compiler is None:
        raise UserError(f"there is no gcc, which compiles {PROGRAM.name}; install it.")
    place = Path(importlib.util.find_spec("tensorflow").origin).parent  # without loading it
    program, libraries = directory / PROGRAM.stem, sorted(place.glob("libtensorflow*.so.2"))
    command = [compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-isystem", f"{place}/include"]
    command += [PROGRAM, "-o", program, *libraries, f"-Wl,-rpath,{place}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{PROGRAM.name} cannot be compiled:\n{done.stderr}")
    return program


def prepare(directory: str, exports: str, work: str, config: SearchConfig) -> dict[str, Any]:
    """Trains and exports; see `serving_models`, which only processes of their own load."""
    import serving_models

    settings = [serving_models.Setting(*setting) for setting in SETTINGS]
    return serving_models.prepare(directory, exports, work, config, DIM, settings)


def write_requests(
    directory: str, exports: str, data: str, requests: str, batches: list[int]
) -> None:
    """Writes a request for each model, signature and batch size."""
    import serving_models

    rows = serving_models.test_rows(directory, data)
    serving_models.write_requests(rows, directory, exports, requests, SIGNATURES, batches)


def test_figures(directory: str, exports: str, data: str) -> dict[str, Any]:
    """How good the exported models are on the test part."""
    import serving_models

    rows = serving_models.test_rows(directory, data)
    return {model: serving_models.judge(rows, f"{exports}/{model}/1") for model in MODELS}


def measure_all(
    program: Path, exports: Path, requests: Path, batches: list[int], counts: tuple[int, int]
) -> Iterator[dict[str, Any]]:
    """The latencies of each model by signature and batch size.

    Args:
        program: The program that measures.
        exports: The models.
        requests: The requests to them.
        batches: The numbers of rows of a request.
        counts: How many turns the models take, and how many runs are timed in one.
    """
    for signature in SIGNATURES:
        for batch in batches:
            print(f"{signature}, {batch} rows", file=sys.stderr, flush=True)
            command = [program, *map(str, counts)]
            for model in MODELS:
                command += [exports / model / "1", requests / f"{model}-{signature}-{batch}"]
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"},
            )
            if done.returncode:
                raise RuntimeError(f"{program.name} failed:\n{done.stderr}")
            lines = [line.split() for line in done.stdout.splitlines()]
            for index, model in enumerate(MODELS):
                taken = np.array(lines[index :: len(MODELS)], np.float64)
                name = {"model": model, "signature": signature, "batch": batch}
                yield name | summarize(taken / 1e6, batch)


def summarize(milliseconds: np.ndarray, batch: int) -> dict[str, float]:
    """The latencies of many runs in a few figures."""
    return {
        "p50_milliseconds": round(float(np.percentile(milliseconds, 50)), 4),
        "p99_milliseconds": round(float(np.percentile(milliseconds, 99)), 4),
        "rows_per_second": round(1000 * batch / float(milliseconds.mean())),
    }


def judge(measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Whether the light model is as fast as is asked for, by signature."""
    criteria = []
    for signature in SIGNATURES:
        p50 = {
            found["model"]: found["p50_milliseconds"]
            for found in measured
            if (found["signature"], found["batch"]) == (signature, 1)
        }
        if p50:
            share = p50["light"] / p50["dnn"]
            criteria.append(
                {
                    "what": f"{signature}: p50 of the light model over that of the DNN, one row",
                    "value": round(share, 4),
                    "limit": f"at most {MOST_SHARE}",
                    "reached": share <= MOST_SHARE,
                }
            )
    return criteria


def print_measured(
    measured: list[dict[str, Any]], test: dict[str, Any], batches: list[int]
) -> None:
    """Prints a line for each model and signature."""
    lines = []
    for signature in SIGNATURES:
        for model in MODELS:
            cells = [signature, model, f"{test[model]['auc']:.4f}"]
            for found in measured:
                if (found["model"], found["signature"]) == (model, signature):
                    cells.append(
                        f"{found['p50_milliseconds']:.3f} / {found['p99_milliseconds']:.3f}"
                    )
                    cells.append(f"{found['rows_per_second']:,}")
            lines.append(cells)
    header = ["signature", "model", "test AUC"]
    for batch in batches:
        header += [f"p50 / p99 ms, batch {batch}", "rows/s"]
    print_table(header, lines)


def _numbers(text: str) -> list[int]:
    try:
        return sorted({int(number) for number in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers such as 1,32: {text!r}.") from None


if __name__ == "__main__":
    sys.exit(main())
