"""Preprocessing against its limit: rows a second and peak memory, beside the bare CSV parser.

    python benchmarks/preprocess.py --rows 1000000 --out benchmarks/results/preprocess.json

Generates a Criteo-like log (13 numeric and 26 categorical fields), then, each in a process of its
own and in turns, runs `fives preprocess` and pyarrow's CSV parser on all cores, and writes the best
and the median of the turns. The parser does nothing but turn the text into columns, so no program
that reads the log twice can be faster than half of it.
"""

import argparse
import json
import shutil
import statistics
import tempfile
from pathlib import Path

import harness

PACKAGES = ("fives-tf", "apache-beam", "pyarrow", "numpy", "datasketches")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--max_values", type=int, default=4_000_000, help="largest vocabulary")
    parser.add_argument("--min_count", type=int, default=1, help="as in the schema")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    harness.add_out_flag(parser)
    parser.add_argument("flags", nargs="*", help="further flags for `fives preprocess`, after --")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        result = measure(args, Path(temporary))
    print(json.dumps(result, indent=1))
    harness.write_result(result, args.out)


def measure(args: argparse.Namespace, directory: Path) -> dict:
    """Generates the log and times both programs in turns."""
    fives = harness.FIVES
    config = {"rows": args.rows, "max_values": args.max_values, "seed": args.seed}
    log, schema = harness.criteo_like(directory, **config)
    text = schema.read_text()
    assert text.count("min_count: 5") == 1
    schema.write_text(text.replace("min_count: 5", f"min_count: {args.min_count}"))
    out = directory / "dataset"
    preprocess = [*fives, "preprocess", str(log), f"--schema={schema}", f"--out={out}"]
    turns = {"preprocess": [], "parse": []}
    for _ in range(args.turns):
        shutil.rmtree(out, ignore_errors=True)
        turns["parse"].append(harness.timed([*harness.PARSE, str(log)]))
        turns["preprocess"].append(harness.timed([*preprocess, *args.flags]))
    dataset = json.loads((out / "encoding.json").read_text())
    seconds = {name: [turn["seconds"] for turn in part] for name, part in turns.items()}
    rate = {name: args.rows / statistics.median(part) for name, part in seconds.items()}
    return {
        "log": {
            **harness.CRITEO_LIKE,
            **config,
            "bytes": log.stat().st_size,
            "min_count": args.min_count,
        },
        "flags": args.flags,
        "vocabulary": dataset["size"],
        "seconds": seconds,
        "rows_per_second": {
            "preprocess": round(rate["preprocess"]),
            "bare pyarrow CSV parser": round(rate["parse"]),
        },
        "ratio_to_the_parser": round(rate["preprocess"] / rate["parse"], 3),
        "peak_mebibytes": {
            "preprocess": max(turn["mebibytes"] for turn in turns["preprocess"]),
            "bare pyarrow CSV parser": max(turn["mebibytes"] for turn in turns["parse"]),
        },
        "machine": harness.machine(),
        "versions": harness.versions(PACKAGES),
    }


if __name__ == "__main__":
    main()
