"""The logistic regression of `fives fit` against its limits: rows a second as they are streamed.

    python benchmarks/fit_speed.py --out benchmarks/results/fit_speed.json

It writes a dataset of a million ids in 39 fields, whose values follow Zipf's law, and trains on it
through the real loop: rows from TFRecords, nothing held in memory. Side by side are

- input: the rows alone, and no training, which no training can beat;
- ftrl, ftrl-10: row-sparse FTRL with one penalty, and with ten at once, as a fit chooses among;
- lazy_adam, lazy_adam-10: the same with lazy Adam;
- keras-ftrl, keras-adam: Keras' own optimizers, which touch the whole table on every step;
- sklearn: `SGDClassifier` of scikit-learn, on one core, on sparse rows that are in memory before
  its time begins.

Each measurement has a process of its own. Use it on an idle machine; on a busy one the seconds of
CPU a million rows tell more than the rows a second.
"""

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import harness
from search_speed import ZIPF, Shape, Task, write_dataset

from fives_tf.tables import print_table

SIZE = 1_000_000
LEAST_ROWS = 100_000  # training rows a second of `ftrl`
NAMES = (
    "input",
    "ftrl",
    "ftrl-10",
    "lazy_adam",
    "lazy_adam-10",
    "keras-ftrl",
    "keras-adam",
    "sklearn",
)
DENSE_SHARE = 10  # steps over the whole table are slow, so one in so many is enough
CALLS, WARM_UP = 10, 2  # parts that are timed, and parts before: the first one compiles
L2 = 1e-6


def main() -> int:
    """The command line."""
    return harness.command_line("fit_speed", run)


def run(argv: list[str] | None = None) -> dict[str, Any]:
    """Measures, prints the table and the verdict, and returns the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--names", default=",".join(NAMES), help="what to measure")
    parser.add_argument("--size", type=int, default=SIZE, help="number of ids")
    parser.add_argument("--steps", type=int, default=500, help="about how many steps are timed")
    parser.add_argument("--batch", type=int, default=Shape.batch)
    parser.add_argument("--rows", type=int, default=Shape.rows)
    harness.add_out_flag(parser)
    args = parser.parse_args(argv)
    shape = Shape(batch=args.batch, rows=args.rows)
    load, measured = os.getloadavg()[0], []
    with tempfile.TemporaryDirectory() as directory:
        task = Task("write", args.size, args.steps, shape, directory)
        harness.in_own_process(write_dataset, task)
        for name in args.names.split(","):
            print(name, file=sys.stderr, flush=True)
            steps = args.steps // DENSE_SHARE if name.startswith("keras") else args.steps
            found = harness.in_own_process(measure, replace(task, name=name, steps=steps))
            measured.append({"name": name} | found)
            shutil.rmtree(Path(directory) / "run", ignore_errors=True)
    compare(measured)
    print_measured(measured)
    criteria = judge(measured)
    for criterion in criteria:
        verdict = "reached" if criterion["reached"] else "NOT reached"
        print(f"{criterion['what']}: {criterion['value']:,}, {criterion['limit']}, {verdict}")
    result = {
        "ids": args.size,
        "shape": {name: asdict(shape)[name] for name in ("fields", "batch", "rows", "seed")},
        "zipf_exponent": ZIPF,
        "steps": args.steps,
        "measured": measured,
        "criteria": criteria,
        "machine": harness.machine() | {"load_before": round(load, 2)},
        "versions": harness.versions((*harness.TRAINING, "scikit-learn")),
    }
    harness.write_result(result, args.out)
    return result


def measure(task: Task) -> dict[str, float]:
    """Rows a second, seconds of CPU a million rows, and the peak memory of this process."""
    if task.name == "sklearn":
        marks = time_sklearn(task)
    else:
        import fit_step  # which loads TensorFlow, in this process only

        marks = fit_step.time_training(task)
    (first, began, cpu_began), (last, ended, cpu_ended) = marks[WARM_UP - 1], marks[-1]
    rows = (last - first) * task.shape.batch
    return {
        "steps": last - first,
        "rows_per_second": round(rows / (ended - began)),
        "cpu_seconds_per_million_rows": round((cpu_ended - cpu_began) / rows * 1e6, 2),
        "peak_mebibytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def call_steps(task: Task) -> int:
    """The steps of one part."""
    return max(1, task.steps // CALLS)


def mark(step: int) -> tuple[int, float, float]:
    """The time after a step, and that of the CPU."""
    return step, time.perf_counter(), time.process_time()


def time_sklearn(task: Task) -> list[tuple[int, float, float]]:
    """The times after parts of an epoch."""
    import numpy as np
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import SGDClassifier

    from fives_tf.dataset import Dataset
    from fives_tf.training.batches import Source

    call, fields = call_steps(task), task.shape.fields
    dataset = Dataset.open(task.directory)
    ids, label = Source(dataset).arrays("train")
    size, starts = dataset.encoding.size, np.arange(0, ids.size + 1, fields)
    rows = csr_matrix((np.ones(ids.size), ids.ravel(), starts), (len(ids), size))
    model, marks = SGDClassifier(loss="log_loss", alpha=L2), []
    for number in range(WARM_UP + CALLS):
        part = np.arange(call * task.shape.batch) + number * call * task.shape.batch
        part %= len(ids)
        some, answers = rows[part], label[part]
        # Only the learning counts, not the choice of its rows.
        before = mark(0)
        model.partial_fit(some, answers, [0, 1])
        taken = [after - start for after, start in zip(mark(0), before, strict=True)]
        last = marks[-1] if marks else (0, 0.0, 0.0)
        marks.append(((number + 1) * call, last[1] + taken[1], last[2] + taken[2]))
    return marks


def compare(measured: list[dict[str, Any]]) -> None:
    """Adds to each measurement how many times as fast FTRL is, by the clock and by the CPU."""
    ftrl = next(one for one in measured if one["name"] == "ftrl")
    key = "cpu_seconds_per_million_rows"
    for one in measured:
        one["ftrl_ratio"] = round(ftrl["rows_per_second"] / one["rows_per_second"], 3)
        one["ftrl_cpu_ratio"] = round(one[key] / max(ftrl[key], 0.01), 3)


def judge(measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is asked of the fit."""
    [rate] = [one["rows_per_second"] for one in measured if one["name"] == "ftrl"]
    limit = f"more than {LEAST_ROWS:,}"
    return [
        {
            "what": "ftrl: rows a second",
            "value": rate,
            "limit": limit,
            "reached": rate > LEAST_ROWS,
        }
    ]


def print_measured(measured: list[dict[str, Any]]) -> None:
    """Prints the measurements side by side."""
    print_table(
        ("what", "rows/s", "CPU s a million rows", "peak MiB", "ftrl is", "by CPU"),
        [
            (
                one["name"],
                f"{one['rows_per_second']:,}",
                f"{one['cpu_seconds_per_million_rows']:.2f}",
                f"{one['peak_mebibytes']:,}",
                f"{one['ftrl_ratio']:.2f} times as fast",
                f"{one['ftrl_cpu_ratio']:.2f} times",
            )
            for one in measured
        ],
    )


if __name__ == "__main__":
    sys.exit(main())
