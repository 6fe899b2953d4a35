"""`fives schema`: writes a first schema for a log, checks one, or tunes one."""

import argparse
import dataclasses
import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fives_tf.commands.printing import add_json_flag, print_json
from fives_tf.errors import UserError

if TYPE_CHECKING:
    from fives_tf.schema import Column, Schema
    from fives_tf.schema_tuning import Trial, Tuning

HELP = "write a first schema for a log of your own, check one, or tune one"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the actions `infer`, `check` and `tune` and their flags."""
    actions = parser.add_subparsers(title="actions", dest="action", metavar="ACTION", required=True)
    text = "guess a schema from the first rows of a log, with comments that explain each choice"
    infer = actions.add_parser("infer", help=text, description=f"{text.capitalize()}.")
    infer.add_argument("log", nargs="+", metavar="LOG", help="files or quoted patterns")
    infer.add_argument("--label", metavar="COLUMN", help="the label column (default: guessed)")
    infer.add_argument("--out", metavar="FILE", help="the schema file (default: print it)")
    infer.add_argument("--overwrite", action="store_true", help="replace the file in --out")
    infer.add_argument(
        "--sample_rows",
        type=int,
        default=100_000,
        metavar="N",
        help="how many rows of the first file to look at (default: %(default)s)",
    )
    add_json_flag(infer)
    text = "check a schema, also against the first rows of a log, and show the fields it makes"
    check = actions.add_parser("check", help=text, description=f"{text.capitalize()}.")
    check.add_argument("schema", metavar="SCHEMA", help="the schema file")
    check.add_argument("log", nargs="*", metavar="LOG", help="files or quoted patterns")
    add_json_flag(check)
    text = (
        "choose how numbers are cut into buckets, and min_count, by the AUC of a quick logistic "
        "regression on the validation rows"
    )
    tune = actions.add_parser(
        "tune",
        help=text,
        description=f"{text[0].upper()}{text[1:]}. One choice serves all columns but those whose "
        "`overrides` in the schema settle it. Rows of the test split are never used.",
    )
    tune.add_argument("schema", metavar="SCHEMA", help="the schema file")
    tune.add_argument("log", nargs="+", metavar="LOG", help="files or quoted patterns")
    tune.add_argument("--out", required=True, metavar="FILE", help="the tuned schema file")
    tune.add_argument("--overwrite", action="store_true", help="replace the file in --out")
    tune.add_argument(
        "--rows",
        type=int,
        default=200_000,
        metavar="N",
        help="how many rows to look at, in 32 stretches spread over the log; those of the test "
        "split among them are left out (default: %(default)s)",
    )
    tune.add_argument(
        "--work",
        metavar="DIR",
        help="a directory that keeps what is finished, so that the same command goes on from there "
        "(default: a temporary one)",
    )
    add_json_flag(tune)


def run(args: argparse.Namespace) -> None:
    """Runs the action."""
    {"infer": _infer, "check": _check, "tune": _tune}[args.action](args)


def _infer(args: argparse.Namespace) -> None:
    # Imported late: `fives --help` must not wait for pyarrow.
    from fives_tf import storage
    from fives_tf.infer import infer_schema
    from fives_tf.schema import Schema

    _check_out(args)
    text = infer_schema(args.log, args.label, args.sample_rows)
    if args.out:
        storage.write(args.out, text.encode())
    if args.json:
        columns = _columns(Schema.parse(text))
        print_json({"out": args.out, "schema": text, "columns": columns})
        return
    if not args.out:
        print(text, end="")
        # On the other stream, so that `fives schema infer LOG > schema.yaml` stays a schema.
        print("read it through, correct it, and keep it in a file (--out)", file=sys.stderr)
        return
    log = " ".join(map(shlex.quote, args.log[:3])) + (" ..." if args.log[3:] else "")
    print(f"wrote {args.out}; read it through and correct it, then run")
    print(f"  fives schema check {shlex.quote(args.out)} {log}")
    print(f"  fives preprocess {log} --schema {shlex.quote(args.out)} --out dataset")


def _tune(args: argparse.Namespace) -> None:
    from fives_tf import storage
    from fives_tf.schema_tuning import tune_schema

    _check_out(args)
    tuning = tune_schema(args.schema, args.log, args.rows, args.work)
    storage.write(args.out, tuning.to_yaml().encode())
    if args.json:
        _print_tuning(args.out, tuning)
        return
    _print_trials(tuning)
    rows = ", ".join(f"{count:,} {split}" for split, count in tuning.sample.rows.items())
    print(f"tried on {rows} rows of the log")
    if tuning.sample.rejected:
        print(f"left out {tuning.sample.rejected:,} bad rows")
    print(f"chose {tuning.best.candidate}; the schema as it was has AUC {tuning.before.auc:.5f}")
    print(f"wrote {args.out}")


def _print_tuning(out: str, tuning: "Tuning") -> None:
    def figures(trial: "Trial") -> dict[str, Any]:
        return {**trial.candidate.settings(), "auc": trial.auc, "log_loss": trial.log_loss}

    print_json(
        {
            "out": out,
            "best": figures(tuning.best),
            "before": figures(tuning.before),
            "trials": [figures(trial) for trial in tuning.trials],
            "rows": tuning.sample.rows,
            "rejected": tuning.sample.rejected,
        }
    )


def _print_trials(tuning: "Tuning") -> None:
    from fives_tf.tables import print_table

    print_table(
        (*tuning.best.candidate.settings(), "AUC", "log loss", "chosen"),
        [
            (
                *trial.candidate.settings().values(),
                f"{trial.auc:.5f}",
                f"{trial.log_loss:.5f}",
                "yes" if trial is tuning.best else "",
            )
            for trial in tuning.trials
        ],
    )


def _check_out(args: argparse.Namespace) -> None:
    from fives_tf import storage

    if args.out and storage.exists(args.out) and not args.overwrite:
        raise UserError(
            f"{args.out}: exists already; choose another file with --out, or give --overwrite to "
            "replace it."
        )


@dataclass(frozen=True)
class _FirstRows:
    """What the first rows of the files of a log are like.

    Attributes:
        files: The number of files.
        rows: How many rows were looked at.
        bad: How many of them are bad.
        rejects: File, line and reason of the first of those.
    """

    files: int
    rows: int
    bad: int
    rejects: list[str]

    def shown(self) -> str:
        """The first bad rows, a line each."""
        return "\n".join(f"  {reject}" for reject in self.rejects)


def _check(args: argparse.Namespace) -> None:
    from fives_tf.schema import Schema
    from fives_tf.tables import print_table

    schema = Schema.load(args.schema)
    first = _check_log(args.log, schema) if args.log else None
    if args.json:
        log = dataclasses.asdict(first) if first else None
        print_json({"schema": args.schema, "columns": _columns(schema), "log": log})
        return
    print_table(("column", "kind", "fields"), _rows(schema))
    print(f"{len(schema.columns):,} columns make {len(schema.field_names()):,} fields")
    if first:
        files = f"{first.files:,} file{'s' if first.files > 1 else ''}"
        but = f", but for {first.bad:,}:\n{first.shown()}" if first.bad else ""
        print(f"the first {first.rows:,} rows of {files} fit the schema{but}")


def _check_log(log: list[str], schema: "Schema") -> _FirstRows:
    """Reads the first rows of each file; refuses a log if most of them are bad."""
    from pipelines.sources import open_log, read_first

    files = open_log(log, schema)
    good, bad, rejects = 0, 0, []
    for file in files:
        rows = read_first(file, schema)
        good, bad = good + len(rows.label), bad + len(rows.rejects)
        rejects += [f"{file.path}:{r.line}: {r.reason}" for r in rows.rejects[:3]]
    first = _FirstRows(len(files), good + bad, bad, rejects[:5])
    if bad > good:
        raise UserError(
            f"{bad:,} of the first {first.rows:,} rows are bad. The first:\n{first.shown()}\n"
            "Correct the schema."
        )
    return first


def _columns(schema: "Schema") -> list[dict[str, Any]]:
    """The columns that become fields."""
    return [
        {
            "name": column.name,
            "kind": _kind(column),
            "fields": list(column.field_names()),
        }
        for column in schema.columns
    ]


def _kind(column: "Column") -> str:
    return "numeric" if column.numeric else "categorical"


def _rows(schema: "Schema") -> list[tuple[str, str, str]]:
    """What becomes of each column that the schema names: its first use, if it has several."""
    label, split = schema.label, schema.split
    values = f"{' '.join(label.positive)} against {' '.join(label.negative)}"
    rows = [(label.column, "label", values)]
    for column in schema.columns:
        rows.append((column.name, _kind(column), ", ".join(column.field_names())))
    rows += [(name, "split", "") for name in split.columns()]
    rows += [(name, "drop", "") for name in schema.drop]
    kinds = {row[0]: row for row in reversed(rows)}
    return [row for row in rows if kinds[row[0]] is row]
