"""The public data sets of the protocol: their files, and how to say where they are."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from fives_tf.errors import UserError, nearest


@dataclass(frozen=True)
class Source:
    """A data set of the protocol.

    Attributes:
        files: Its files within the directory of the data.
        rows: How many rows it has.
        test: How many of them are test rows.
        drawn: Whether the seed draws the test rows; else the data says which they are.
    """

    files: tuple[str, ...]
    rows: int
    test: int
    drawn: bool = False


SOURCES = {
    "employee": Source(("employee/train.csv.gz",), 32_769, 3_278, drawn=True),
    "bank": Source(("bank/bank-additional-full.csv.gz",), 41_188, 13_729, drawn=True),
    "adult": Source(("adult/adult.data.gz", "adult/adult.test.gz"), 48_842, 16_281),
    "credit": Source(("credit/cs-training.csv.gz",), 150_000, 50_000, drawn=True),
    "criteo": Source(("criteo/criteo_kaggle_0p3pct.tsv.gz",), 137_139, 27_428),
}


def add_data_flag(parser: argparse.ArgumentParser) -> None:
    """Adds the flag that says where the public data sets are."""
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("FIVES_DATA", "data")),
        metavar="DIR",
        help="directory of the public data sets; default: $FIVES_DATA, or `data`",
    )


def check_data(name: str, data: Path) -> None:
    """Refuses to begin without the files of a data set."""
    for file in SOURCES[name].files:
        if not (data / file).exists():
            raise UserError(
                f"{data / file}: is not there; set FIVES_DATA, or --data, to the directory of the "
                "public data sets."
            )


def unknown(name: str) -> str:
    """What to tell of a data set that there is not."""
    return f"no data set `{name}`{nearest(name, SOURCES)} Known: {', '.join(SOURCES)}."
