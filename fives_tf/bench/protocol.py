"""The protocol of the benchmarks: which rows of the public data sets are train, valid and test.

    python -m fives_tf.bench.protocol --work DIR --datasets employee,bank --seeds 0,1,2

Prepares a dataset directory `DIR/NAME-SEED` for each and prints the rows and clicks of its splits;
`fives bench` and the programs of `benchmarks/` call `prepare`.

The test rows of employee, bank and credit are drawn anew for each seed. Adult has an official test
file, so there the seed varies only which rows of train are the validation part, a tenth of train
everywhere. The test part of criteo is the end of its log in time, and the validation part is what
comes before it, so that choices hold for later rows; there the seed varies only what is learned.
Encodings are fitted without test rows.
"""

import argparse
import dataclasses
import gzip
import sys
import zlib
from pathlib import Path

import numpy as np

from fives_tf import storage
from fives_tf.bench.sources import SOURCES, Source, add_data_flag, check_data, unknown
from fives_tf.dataset import MANIFEST, Dataset
from fives_tf.errors import UserError
from fives_tf.schema import SPLITS, Schema, SplitRule
from fives_tf.tables import print_table

SCHEMAS = Path(__file__).with_name("schemas")
SEEDS = range(5)
VALID = 0.1  # of train
CRITEO_TEST = 0.2
TRAIN_FILE = "train.csv"
TEST_FILE = "test.csv"


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
    add_data_flag(parser)
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
        schema: What to use in place of `schemas/NAME.yaml`; the split that it states is replaced by
            that of the protocol.

    Returns:
        The complete dataset.
    """
    if name not in SOURCES:
        raise UserError(unknown(name))
    schema = schema or Schema.load(SCHEMAS / f"{name}.yaml")
    schema = dataclasses.replace(schema, split=split_rule(name, seed))
    directory = _directory(name, seed, work)
    if is_prepared(name, seed, work):
        dataset = Dataset.open(str(directory))
        if dataset.schema != schema:
            raise UserError(
                f"{directory}: was made by another schema; choose another directory, or remove it."
            )
    else:
        dataset = _preprocess(name, seed, schema, data.resolve(), directory)
    _check_rows(dataset, SOURCES[name])
    return dataset


def is_prepared(name: str, seed: int, work: Path) -> bool:
    """Whether `prepare` would find what it makes."""
    return (_directory(name, seed, work) / MANIFEST).exists()


def split_rule(name: str, seed: int) -> SplitRule:
    """The split of a data set as its schema states it."""
    if name == "criteo":
        # A split by position counts the validation part among all rows, not among those of train.
        valid = round(VALID * (1 - CRITEO_TEST), 6)
        return SplitRule("position", valid, CRITEO_TEST, seed, valid_rows="last")
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


def _directory(name: str, seed: int, work: Path) -> Path:
    return work.resolve() / f"{name}-{seed}"


def _preprocess(name: str, seed: int, schema: Schema, data: Path, directory: Path) -> Dataset:
    # Beam is not loaded by programs whose datasets are there.
    from pipelines import runner
    from pipelines.preprocess import Options, preprocess

    check_data(name, data)
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
    try:
        content = gzip.decompress(storage.read(str(path)))
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: is damaged ({error}); put the whole file there.") from None
    header, *lines = content.splitlines(keepends=True)
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
            raise argparse.ArgumentTypeError(unknown(name))
    return names


def _seeds(text: str) -> list[int]:
    numbers = text.split(",")
    if not all(number.isdecimal() for number in numbers):
        raise argparse.ArgumentTypeError(f"expected numbers such as 0,1,2. Received: {text!r}.")
    return [int(number) for number in numbers]


if __name__ == "__main__":
    sys.exit(main())
