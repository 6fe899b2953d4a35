"""`fives synth`: writes a synthetic log whose crosses are known."""

import argparse
import json
import sys
from pathlib import Path

from fives_tf import storage
from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.errors import UserError

HELP = "write a synthetic click log with planted crosses, to try the search on"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of this command; their defaults are those of `SynthConfig`."""

    def add(flag: str, default: object, text: str, **options: object) -> None:
        options.setdefault("type", type(default))
        parser.add_argument(flag, default=default, help=f"{text} (default: %(default)s)", **options)

    add("--rows", 100_000, "number of rows; ten million need no more memory than this", metavar="N")
    add("--fields", 20, "number of fields, numeric and categorical together", metavar="N")
    add("--numeric", 5, "how many of the fields are numeric: I1, I2, ...", metavar="N")
    add(
        "--plant",
        "2,2,2,3",
        "the crosses to plant, separated by commas: an order such as 2 lets the generator choose "
        'the fields, "C1 x C2" names them; an empty text plants none',
        metavar="CROSSES",
    )
    add("--pair_values", 20, "number of values of the fields in planted pairs", metavar="N")
    add(
        "--triple_values",
        6,
        "number of values of the fields in planted crosses of order 3 and above",
        metavar="N",
    )
    add("--max_values", 1000, "size of the largest vocabulary of the other fields", metavar="N")
    add("--missing", 0.05, "mean missing rate of the fields in no planted cross", metavar="RATE")
    add("--click_rate", 0.2, "part of the rows with a click", metavar="RATE")
    add(
        "--cross_effect",
        1.0,
        "standard deviation of each planted cross's part of the logit; less is harder to find",
        metavar="STD",
    )
    add(
        "--field_effect",
        0.3,
        "standard deviation of the part of the logit that single fields make up",
        metavar="STD",
    )
    add("--seed", 0, "the same seed and flags write the same bytes", metavar="N")
    add("--format", "csv", "format of the log", choices=("csv", "tsv", "parquet"))
    add(
        "--compression",
        "none",
        "compression of the log; Parquet files are compressed inside",
        choices=("none", "gz", "zst"),
    )
    add("--out", "synth-log", "directory for the log, schema.yaml and truth.json", metavar="DIR")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the synthetic log that is in --out"
    )
    add_json_flag(parser)


def run(args: argparse.Namespace) -> None:
    """Writes the log and prints what is in it."""
    if storage.is_remote(args.out):
        raise UserError(f"--out: {args.out} is at a store; write to the disk, and copy it there.")
    directory = Path(args.out)
    _check_place(directory, args.overwrite)
    # Imported late: `fives --help` must not wait for pyarrow.
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from fives_tf.synth import SynthConfig, generate

    config = SynthConfig(
        rows=args.rows,
        fields=args.fields,
        numeric=args.numeric,
        plant=tuple(entry.strip() for entry in args.plant.split(",") if entry.strip()),
        pair_values=args.pair_values,
        triple_values=args.triple_values,
        max_values=args.max_values,
        missing=args.missing,
        click_rate=args.click_rate,
        cross_effect=args.cross_effect,
        field_effect=args.field_effect,
        seed=args.seed,
    )
    compression = None if args.compression == "none" else args.compression
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("rows", total=config.rows)
        truth = generate(
            config,
            directory,
            args.format,
            compression,
            lambda done: bar.update(task, completed=done),
        )
    if args.json:
        print_json({"out": str(directory), **json.loads(truth.to_json())})
        return
    print(f"wrote            {directory / truth.log}, schema.yaml and truth.json")
    print(f"rows             {truth.rows:,}")
    print(f"click rate       {truth.click_rate:.4f}")
    print(f"Bayes AUC        {truth.bayes_auc:.4f} (no model can do better)")
    names = [" x ".join(fields) for fields in truth.crosses] or ["none"]
    print(f"planted crosses  {', '.join(names)}")


def _check_place(directory: Path, overwrite: bool) -> None:
    """Refuses a directory with anything in it but a synthetic log that may be replaced."""
    names = [path.name for path in directory.glob("[!.]*")]
    if "truth.json" in names and not overwrite:
        raise UserError(
            f"{directory}: holds a synthetic log already; choose another directory with --out, or "
            "give --overwrite to replace it."
        )
    if names and "truth.json" not in names:
        raise UserError(
            f"{directory}: is not empty, and holds no synthetic log; choose another directory with "
            "--out."
        )
