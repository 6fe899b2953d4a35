"""The data of a benchmark: public data sets by name, or dataset directories of one's own."""

import dataclasses
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fives_tf import storage
from fives_tf.bench import protocol
from fives_tf.bench.processes import FAILED, MISTAKE, Call, in_processes
from fives_tf.bench.sources import SOURCES, check_data, unknown
from fives_tf.config import SearchConfig
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError


@dataclass(frozen=True)
class Data:
    """What a run learns from and is judged on.

    Attributes:
        name: The name of the data set.
        seed: The seed of the run; of a public data set also that of its splits.
        directory: The dataset directory.
        rows: The number of train rows.
        columns: The number of columns that fields are made of.
        identity: What tells it from other data, wherever it lies.
        public: Whether it is a data set of the protocol, or a directory that may have such a name.
    """

    name: str
    seed: int
    directory: str
    rows: int
    columns: int
    identity: str
    public: bool


def check_names(names: list[str]) -> None:
    """Refuses what is neither a public data set nor a directory, and two of one name."""
    for name in names:
        if storage.is_remote(name):
            raise UserError(f"--datasets: {name}: expected a directory of the disk; copy it there.")
        if not _is_directory(name) and name not in SOURCES:
            raise UserError(f"--datasets: {unknown(name)[:-1]}, and any dataset directory.")
    labels = [label(name) for name in names]
    for one in labels:
        if not one.isprintable():  # as names are that are not UTF-8
            raise UserError(f"--datasets: {one!r} cannot be printed; rename the directory.")
        if labels.count(one) > 1:
            raise UserError(f"--datasets: two of them are called {one}; rename a directory.")


def label(name: str) -> str:
    """The name that results state: of a directory, its last part."""
    return Path(os.path.abspath(name)).name if _is_directory(name) else name


def prepare(
    names: list[str], seeds: range, data: Path, work: Path, jobs: int
) -> dict[str, list[Data]]:
    """Makes the dataset directories that are missing; for each name, the data of each seed.

    Args:
        names: Public data sets and directories.
        seeds: The seeds.
        data: The directory of the public data sets.
        work: Where their dataset directories go.
        jobs: How many are made at a time.
    """
    # First, as all that is wrong with them is known at once. All seeds have the same.
    own = {name: _describe(label(name), 0, name, False) for name in names if _is_directory(name)}
    public = [name for name in names if name not in own]
    for name in public:
        check_data(name, data)
    calls = [
        Call(_prepare, (name, seed, str(data), str(work))) for name in public for seed in seeds
    ]
    missing = [call for call in calls if not protocol.is_prepared(*call.args[:2], work)]
    for number, outcome in in_processes(missing, jobs):
        if outcome.kind in (MISTAKE, FAILED):
            raise UserError(f"{missing[number].args[0]}: cannot be prepared: {outcome.value}")
    found = {}
    for name in names:
        if name in own:
            found[label(name)] = [dataclasses.replace(own[name], seed=seed) for seed in seeds]
            continue
        # Opened once more, as the protocol refuses what was made by another schema.
        directories = [protocol.prepare(name, seed, data, work).directory for seed in seeds]
        found[name] = [
            _describe(name, seed, directory, True)
            for seed, directory in zip(seeds, directories, strict=True)
        ]
    return found


def _prepare(name: str, seed: int, data: str, work: str) -> None:
    protocol.prepare(name, seed, Path(data), Path(work))


def _describe(name: str, seed: int, directory: str, public: bool) -> Data:
    """What is known of a dataset; refuses one that nothing can be learned from or judged on."""
    # Not imported with this module: neither what prepares data nor trees need TensorFlow.
    from fives_tf.search import check_clicks, check_dataset

    dataset = Dataset.open(directory)
    check_dataset(dataset, SearchConfig(order=2))
    check_clicks(dataset, "test")
    return Data(
        name=name,
        seed=seed,
        directory=os.path.abspath(directory),
        rows=dataset.split("train").rows,
        columns=len({field.column for field in dataset.encoding.fields}),
        identity=_identity(dataset, public),
        public=public,
    )


def _identity(dataset: Dataset, public: bool) -> str:
    """A hash of encoding and shards, whatever the log is called and whenever it was made.

    What the shards of a public data set hold is decided by the protocol, and their figures tell it;
    one's own are read, as the same ids with other labels may well have the same figures.
    """
    files = dataset.encoding.to_files()
    facts: dict[str, Any] = {
        "encoding": {name: hashlib.sha256(files[name]).hexdigest() for name in files},
        "shards": {
            name: [[shard.rows, shard.clicks, shard.bytes] for shard in split.shards]
            for name, split in dataset.splits.items()
        },
    }
    if not public:
        facts["content"] = {
            name: [_digest(dataset.path(shard)) for shard in split.shards]
            for name, split in dataset.splits.items()
        }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _digest(path: str) -> str:
    with storage.open_read(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_directory(name: str) -> bool:
    return os.sep in name or (name not in SOURCES and storage.is_directory(name))
