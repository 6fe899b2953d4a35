"""Preprocessing against its limit: rows a second and peak memory, beside the bare CSV parser.

    python benchmarks/preprocess.py --rows 1000000 --out benchmarks/results/preprocess.json
    python benchmarks/preprocess.py --runner FlinkRunner \\
        --out benchmarks/results/preprocess-flink.json

Generates a Criteo-like log (13 numeric and 26 categorical fields), then, each in a process of its
own and in turns, runs `fives preprocess` and pyarrow's CSV parser on all cores, and writes the best
and the median of the turns. The parser does nothing but turn the text into columns, so no program
that reads the log twice can be faster than half of it. With --runner FlinkRunner the same log is
also preprocessed, in the same turns, on a Flink cluster of two TaskManagers on this machine, which
is started before.
"""

import argparse
import contextlib
import json
import shutil
import statistics
import tempfile
from pathlib import Path

import harness

from launch import flink_local

PACKAGES = ("fives-tf", "apache-beam", "pyarrow", "numpy", "datasketches")


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--max_values", type=int, default=4_000_000, help="largest vocabulary")
    parser.add_argument("--min_count", type=int, default=1, help="as in the schema")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--runner",
        choices=("in-process", "FlinkRunner"),
        default="in-process",
        help="FlinkRunner: that one too",
    )
    parser.add_argument("--job_server_beam", metavar="RELEASE", help="as for `fives preprocess`")
    harness.add_out_flag(parser)
    parser.add_argument("flags", nargs="*", help="further flags for `fives preprocess`, after --")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        directory, logs = (stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2))
        flink = None
        if args.runner == "FlinkRunner":
            config = flink_local.Config(logs=logs)
            flink = stack.enter_context(flink_local.start(config)).flags
            if args.job_server_beam:
                flink += [f"--job_server_beam={args.job_server_beam}"]
        result = measure(args, Path(directory), flink)
    print(json.dumps(result, indent=1))
    harness.write_result(result, args.out)


def measure(args: argparse.Namespace, directory: Path, flink: list[str] | None) -> dict:
    """Generates the log and times the programs in turns.

    Args:
        args: The flags.
        directory: Where to work.
        flink: The flags to run on Flink with, if that is to be measured too.
    """
    fives = harness.FIVES
    config = {"rows": args.rows, "max_values": args.max_values, "seed": args.seed}
    log, schema = harness.criteo_like(directory, **config)
    text = schema.read_text()
    assert text.count("min_count: 5") == 1
    schema.write_text(text.replace("min_count: 5", f"min_count: {args.min_count}"))
    out = directory / "dataset"
    preprocess = [*fives, "preprocess", str(log), f"--schema={schema}", f"--out={out}"]
    commands = {
        "bare pyarrow CSV parser": [*harness.PARSE, str(log)],
        "preprocess": [*preprocess, *args.flags],
    }
    if flink is not None:
        commands["preprocess on Flink"] = [*preprocess, *args.flags, *flink]
    turns = {name: [] for name in commands}
    for _ in range(args.turns):
        for name, command in commands.items():
            shutil.rmtree(out, ignore_errors=True)
            turns[name].append(harness.timed(command))
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
        "flink": flink and {"release": flink_local.RELEASE, "flags": flink},
        "vocabulary": dataset["size"],
        "seconds": seconds,
        "rows_per_second": {name: round(value) for name, value in rate.items()},
        "ratio_to_the_parser": round(rate["preprocess"] / rate["bare pyarrow CSV parser"], 3),
        "peak_mebibytes": {  # on Flink the memory is that of other processes
            name: max(turn["mebibytes"] for turn in part)
            for name, part in turns.items()
            if name != "preprocess on Flink"
        },
        "machine": harness.machine(),
        "versions": harness.versions(PACKAGES),
    }


if __name__ == "__main__":
    main()
