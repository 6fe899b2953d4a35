"""The protocol of the benchmarks: which rows of the public data sets are train, valid and test.

    python benchmarks/protocol.py --work DIR --datasets employee,bank --seeds 0,1,2

Prepares a dataset directory `DIR/NAME-SEED` for each and prints the rows and clicks of its splits.
Other programs of this folder say `import protocol` and call `prepare`.

The test rows of employee, bank and credit are drawn anew for each seed. Adult has an official test
file and the test part of criteo is the end of its log, so there the seed varies only which rows of
train are the validation part, a tenth of train everywhere. Encodings are fitted without test rows.
"""

import argparse
import dataclasses
import gzip
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fives_tf import storage
from fives_tf.dataset import MANIFEST, Dataset
from fives_tf.errors import UserError, nearest
from fives_tf.schema import SPLITS, Schema, SplitRule
from fives_tf.tables import print_table

ROOT = Path(__file__).parents[1]
SEEDS = range(5)
VALID = 0.1  # of train
CRITEO_TEST = 0.2
TRAIN_FILE = "train.csv"
TEST_FILE = "test.csv"


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


def main() -> int:
    """The command line."""
    try:
        run()
    except UserError as error:
        print(f"protocol: {error}", file=sys.stderr)
        return 2
    return 0


def run(argv: list[str] | None = None) -> list[Dataset]:
    """Prepares what the flags ask for and prints a table of the splits."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add_flags(parser)
    args = parser.parse_args(argv)
    datasets, lines = [], []
    for name in args.datasets:
        for seed in args.seeds:
            dataset = prepare(name, seed, args.data, args.work)
            datasets.append(dataset)
            parts = [dataset.split(split) for split in SPLITS]
            counts = [f"{count:,}" for part in parts for count in (part.rows, part.clicks)]
            lines.append((name, str(seed), *counts))
    columns = [f"{split} {what}" for split in SPLITS for what in ("rows", "clicks")]
    print_table(("data set", "seed", *columns), lines)
    return datasets


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say which data sets to prepare, from where and to where."""
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("FIVES_DATA", ROOT.parent / "shared" / "data")),
        help="directory of the public data sets; default: $FIVES_DATA, or %(default)s",
    )
    parser.add_argument("--work", type=Path, required=True, help="where dataset directories go")
    parser.add_argument("--datasets", type=_names, default=list(SOURCES), metavar="NAME,...")
    parser.add_argument("--seeds", type=_seeds, default=list(SEEDS), metavar="N,...")


def prepare(name: str, seed: int, data: Path, work: Path, schema: Schema | None = None) -> Dataset:
    """Makes the dataset directory `work/name-seed`, or opens it if it is there.

    Args:
        name: A data set, one of `SOURCES`.
        seed: The seed of the splits.
        data: The directory of the public data sets.
        work: The directory to write to. The text files of drawn splits stay in `work/raw`.
        schema: What to use in place of `examples/schemas/NAME.yaml`; the split that it states is
            replaced by that of the protocol.

    Returns:
        The complete dataset.
    """
    if name not in SOURCES:
        raise UserError(_unknown(name))
    schema = schema or Schema.load(ROOT / "examples" / "schemas" / f"{name}.yaml")
    schema = dataclasses.replace(schema, split=split_rule(name, seed))
    directory = work.resolve() / f"{name}-{seed}"
    if (directory / MANIFEST).exists():
        dataset = Dataset.open(str(directory))
        if dataset.schema != schema:
            raise UserError(
                f"{directory}: was made by another schema; choose another directory, or remove it."
            )
    else:
        dataset = _preprocess(name, seed, schema, data.resolve(), directory)
    _check_rows(dataset, SOURCES[name])
    return dataset


def split_rule(name: str, seed: int) -> SplitRule:
    """The split of a data set as its schema states it."""
    if name == "criteo":
        # A split by position counts the validation part among all rows, not among those of train.
        valid = round(VALID * (1 - CRITEO_TEST), 6)
        return SplitRule("position", valid, CRITEO_TEST, seed, valid_rows="random")
    files = {"train": ("adult.data*",), "test": ("adult.test*",)}
    if SOURCES[name].drawn:
        files = {"train": (TRAIN_FILE,), "test": (TEST_FILE,)}
    return SplitRule("files", VALID, None, seed, files=files)


def held_out_rows(name: str, seed: int) -> np.ndarray:
    """The numbers of the test rows in rising order, counted over all files without headers."""
    source = SOURCES[name]
    if source.drawn:
        return np.sort(np.random.default_rng(seed).permutation(source.rows)[: source.test])
    return np.arange(source.rows - source.test, source.rows)


def _preprocess(name: str, seed: int, schema: Schema, data: Path, directory: Path) -> Dataset:
    # Beam is not loaded by programs whose datasets are there.
    from pipelines import runner
    from pipelines.preprocess import Options, preprocess

    files = [data / file for file in SOURCES[name].files]
    if SOURCES[name].drawn:
        files = _write_drawn(name, seed, files[0], directory.parent / "raw" / directory.name)
    # Each file is a single piece, so further workers would find little to do; the result would be
    # the same. What a killed run left is not worth resuming.
    options = Options(overwrite=True, beam=runner.pipeline_options([], workers=1))
    return preprocess([str(file) for file in files], schema, str(directory), options)


def _write_drawn(name: str, seed: int, path: Path, directory: Path) -> list[Path]:
    """Writes the rows of a file with a header to a train and a test file, in the same order."""
    # A line is a row: no value of these files holds a line break, or the number would be another.
    header, *lines = gzip.decompress(storage.read(str(path))).splitlines(keepends=True)
    if len(lines) != SOURCES[name].rows:
        raise UserError(
            f"{path}: has {len(lines):,} rows, expected {SOURCES[name].rows:,}; put the file there "
            "that the protocol names."
        )
    is_test = np.zeros(len(lines), bool)
    is_test[held_out_rows(name, seed)] = True
    files = {directory / TRAIN_FILE: ~is_test, directory / TEST_FILE: is_test}
    for file, chosen in files.items():
        rows = (lines[number] for number in np.flatnonzero(chosen))
        storage.write(str(file), b"".join((header, *rows)))
    return list(files)


def _check_rows(dataset: Dataset, source: Source) -> None:
    """Refuses a dataset whose figures could not be compared with those of the protocol."""
    test = dataset.split("test").rows
    rows = sum(part.rows for part in dataset.splits.values())
    if (test, rows) != (source.test, source.rows):
        raise UserError(
            f"{dataset.directory}: has {test:,} test rows of {rows:,}, expected {source.test:,} of "
            f"{source.rows:,}; check that the data is that of the protocol ("
            f"{', '.join(source.files)}), and remove the directory."
        )


def _names(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in SOURCES:
            raise argparse.ArgumentTypeError(_unknown(name))
    return names


def _seeds(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"expected numbers such as 0,1,2. Received: {text!r}.")
    return [int(number) for number in numbers]


def _unknown(name: str) -> str:
    return f"no data set `{name}`{nearest(name, SOURCES)} Known: {', '.join(SOURCES)}."


if __name__ == "__main__":
    sys.exit(main())
