"""Materializing crosses: rows a second and peak memory, beside the bare CSV parser.

    python benchmarks/materialize.py --rows 1000000 --out benchmarks/results/materialize.json

Generates a Criteo-like log (13 numeric and 26 categorical fields) and preprocesses it. Then, each
in a process of its own and in turns, `fives materialize` adds five crosses: to the dataset as
fields, to the log as text, and to the log as ids; and pyarrow's CSV parser reads the log on all
cores and does nothing else.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

from fives_tf.crosses import Cross, to_json
from fives_tf.dataset import Dataset

PACKAGES = ("fives-tf", "tensorflow", "apache-beam", "pyarrow", "numpy")
LEAST_ROWS = 40_000  # a second
MOST_MEBIBYTES = 2048


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    harness.add_out_flag(parser)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        result = measure(args, Path(temporary))
    print(json.dumps(result, indent=1))
    for name in WAYS:
        rate, peak = result["rows_per_second"][name], result["peak_mebibytes"][name]
        reached = rate >= LEAST_ROWS and peak <= MOST_MEBIBYTES
        print(
            f"{name}: {rate:,} rows/s, at least {LEAST_ROWS:,}, and {peak:,} MiB, at most "
            f"{MOST_MEBIBYTES:,}: {'reached' if reached else 'NOT reached'}",
            file=sys.stderr,
        )
    harness.write_result(result, args.out)


# What is written, by the name of the way: the end of its name, what is read, and further flags.
WAYS = {
    "dataset": ("dataset-with-crosses", False, ()),
    "log with texts": ("texts.parquet", True, ()),
    "log with ids": ("ids.parquet", True, ("--values=ids",)),
}


def measure(args: argparse.Namespace, directory: Path) -> dict:
    """Generates the log and times all ways in turns."""
    config = {"rows": args.rows, "seed": args.seed}
    log, schema = harness.criteo_like(directory, **config)
    dataset = directory / "dataset"
    command = ["preprocess", str(log), f"--schema={schema}", f"--out={dataset}"]
    subprocess.run([*harness.FIVES, *command], check=True)
    crosses = some_crosses(Dataset.open(str(dataset)))
    listed = directory / "crosses.json"
    listed.write_bytes(to_json(crosses))
    turns: dict[str, list[dict[str, float]]] = {name: [] for name in (*WAYS, "parser")}
    for _ in range(args.turns):
        turns["parser"].append(harness.timed([*harness.PARSE, str(log)]))
        for name, (ending, reads_log, flags) in WAYS.items():
            out = directory / ending
            shutil.rmtree(out, ignore_errors=True)
            out.unlink(missing_ok=True)
            command = ["materialize", str(listed), f"--dataset={dataset}", f"--out={out}", *flags]
            command += ["--input", str(log)] if reads_log else []
            turns[name].append(harness.timed([*harness.FIVES, *command]))
    sizes = [
        field.size for field in Dataset.open(str(directory / WAYS["dataset"][0])).crosses.fields
    ]
    seconds = {name: [turn["seconds"] for turn in part] for name, part in turns.items()}
    rate = {name: args.rows / statistics.median(part) for name, part in seconds.items()}
    return {
        "log": {**harness.CRITEO_LIKE, **config, "bytes": log.stat().st_size},
        "crosses": {cross.name: size for cross, size in zip(crosses, sizes, strict=True)},
        "seconds": seconds,
        "rows_per_second": {name: round(one) for name, one in rate.items()},
        "ratio_to_the_parser": {name: round(rate[name] / rate["parser"], 3) for name in WAYS},
        "peak_mebibytes": {
            name: max(turn["mebibytes"] for turn in part) for name, part in turns.items()
        },
        "machine": harness.machine(),
        "versions": harness.versions(PACKAGES),
    }


def some_crosses(dataset: Dataset) -> list[Cross]:
    """Five crosses of fields from the smallest to the largest, three pairs and two triples."""
    fields = sorted(dataset.encoding.fields, key=lambda field: field.size)
    a, b, c, d, e = (fields[(len(fields) - 1) * part // 4].name for part in range(5))
    return [Cross(one, 1.0) for one in ((a, b), (c, d), (d, e), (a, b, c), (c, d, e))]


if __name__ == "__main__":
    main()
