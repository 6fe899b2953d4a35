"""The run directory: what a search or a fit leaves behind, and what other commands read of it."""

import dataclasses
import io
import json
import platform
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fives_tf import __version__, storage
from fives_tf import crosses as crosses_format
from fives_tf.config import Config, FitConfig, SearchConfig, read_settings
from fives_tf.crosses import (
    CROSSES_AN_ORDER,
    Cross,
    derive,
    edge_probabilities,
    with_figures,
)
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.versions import versions

VERSION = 3
CONFIG = "config.yaml"
MANIFEST = "run.json"
ADJACENCY = "adjacency.npz"
CROSSES = "crosses.json"
MEMBERS = "members"
TUNE = "tune"
LIGHT = "light"
CROSS_IDS = "crosses"
LOCK = "lock"
SEARCH, FIT = "search", "fit"  # the kinds of run
_CONFIGS = {SEARCH: SearchConfig, FIT: FitConfig}
_MAY_DIFFER = {"memory", "checkpoint_seconds", "strategy", "devices"}  # between begin and resume
# All that a run directory holds beside the lock; to replace a run removes these and nothing else.
FILES = (
    MANIFEST,
    CONFIG,
    ADJACENCY,
    CROSSES,
    MEMBERS,
    TUNE,
    LIGHT,
    CROSS_IDS,
    "checkpoints",
    "metrics.jsonl",
    "snapshots.jsonl",
    "tensorboard",
    "report",
    "report.html",
    "report.json",
)


@dataclass(frozen=True, eq=False)
class Adjacency:
    """A learned adjacency tensor; slice k - 1 of each array is the paper's layer k.

    Attributes:
        h: The parameters H.
        strength: The edges' strengths before re-scaling, by which crosses are ranked.
        soft: The adjacency tensor A at the last temperature.
        binary: The edges that count, 1 or 0.
        thresholds: From which strength on they do, for each layer.
        temperature: The last temperature.
        fields: The names of the fields.
        columns: The column that each field is made from.
    """

    h: np.ndarray
    strength: np.ndarray
    soft: np.ndarray
    binary: np.ndarray
    thresholds: np.ndarray
    temperature: np.ndarray
    fields: np.ndarray
    columns: np.ndarray

    def to_bytes(self) -> bytes:
        """The content of `adjacency.npz`."""
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **vars(self))
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Adjacency":
        """Reads what `to_bytes` gave."""
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return cls(**{name: arrays[name] for name in cls.__dataclass_fields__})


class Run:
    """A complete run directory.

    Example:
        run = Run.open("run")
        for cross in run.crosses[:10]:
            print(cross.name, cross.score)
    """

    def __init__(self, directory: str, manifest: dict[str, Any]):
        """Takes a directory and what its `run.json` says."""
        self.directory = directory
        self.manifest = manifest

    @classmethod
    def open(cls, directory: str) -> "Run":
        """Opens a run that is complete; refuses any other."""
        run = cls.find(directory)
        if run is None:
            missing = not storage.exists(directory)
            reason = "no such directory" if missing else f"there is no {MANIFEST} in it"
            raise UserError(f"{directory}: {reason}; make a run with `fives search`.")
        if not run.is_complete:
            raise UserError(
                f"{directory}: the {run.kind} is unfinished. Run the same `fives {run.kind}` "
                "command with --resume to go on, or with --overwrite to start again."
            )
        return run

    @classmethod
    def find(cls, directory: str) -> "Run | None":
        """Opens a run, complete or not; None if there is none."""
        path = storage.join(directory, MANIFEST)
        if not storage.exists(path):
            return None
        try:
            manifest = json.loads(storage.read(path))
        except ValueError as error:
            raise UserError(
                f"{path}: is damaged ({error}); search again with --overwrite."
            ) from None
        if manifest.get("kind", SEARCH) not in _CONFIGS:
            raise UserError(
                f"{path}: a run of the kind {manifest['kind']} is not known to this program, which "
                f"reads those of {' and '.join(_CONFIGS)}."
            )
        if manifest.get("version") != VERSION:
            raise UserError(
                f"{path}: version {manifest.get('version')} is not known to this program, which "
                f"reads version {VERSION}. Search again with --overwrite."
            )
        return cls(directory, manifest)

    @classmethod
    def begin(cls, directory: str, dataset: Dataset, config: Config, kind: str = SEARCH) -> "Run":
        """Begins a run in an empty directory."""
        manifest = {
            "version": VERSION,
            "kind": kind,
            "written_by": f"fives-tf {__version__}",
            "complete": False,
            "dataset": storage.absolute(dataset.directory),
            "fingerprint": fingerprint(dataset),
        }
        run = cls(directory, manifest)
        storage.write(storage.join(directory, CONFIG), config.to_yaml().encode())
        run._write_manifest()
        return run

    def finish(self, adjacency: Adjacency | None, crosses: list[Cross], **results: Any) -> None:
        """Writes what was found; from then on the run is complete."""
        if adjacency is not None:
            storage.write(storage.join(self.directory, ADJACENCY), adjacency.to_bytes())
        self.write_crosses(crosses)
        made_with = {"python": platform.python_version(), **versions()}
        self.manifest |= results | {"versions": made_with, "complete": True}
        self._write_manifest()

    def write_crosses(self, crosses: list[Cross]) -> None:
        """Writes the crosses, by order and falling score."""
        storage.write(storage.join(self.directory, CROSSES), crosses_format.to_json(crosses))

    @property
    def is_complete(self) -> bool:
        """Whether the run came to its end."""
        return self.manifest["complete"]

    @property
    def kind(self) -> str:
        """What made the run, SEARCH or FIT."""
        return self.manifest.get("kind", SEARCH)

    @property
    def config(self) -> Config:
        """The configuration of the run, resolved."""
        path, kind = storage.join(self.directory, CONFIG), _CONFIGS[self.kind]
        return kind(**read_settings(storage.read(path).decode(), path, kind))

    @property
    def adjacency(self) -> Adjacency:
        """The learned adjacency tensor."""
        if self.kind != SEARCH:
            raise UserError(
                f"{self.directory}: is a {self.kind}, which has no adjacency tensor; name the run "
                "of a search."
            )
        path = storage.join(self.directory, ADJACENCY)
        try:
            return Adjacency.from_bytes(storage.read(path))
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise UserError(
                f"{path}: is damaged ({error}); copy it again, or search again."
            ) from None

    @property
    def crosses(self) -> list[Cross]:
        """The crosses, by order and falling score."""
        path = storage.join(self.directory, CROSSES)
        return crosses_format.from_json(storage.read(path), path)

    def edge_crosses(self, thresholds: Sequence[float] | None = None) -> list[Cross]:
        """The crosses whose edges all count, by order and falling score.

        Args:
            thresholds: From which strength in the soft adjacency tensor on an edge counts, for each
                layer; those of the search unless given.
        """
        adjacency = self.adjacency
        edges = adjacency.binary
        if thresholds is not None:
            limits = np.array(thresholds, adjacency.soft.dtype)
            edges = adjacency.soft >= limits[:, None, None]
        crosses = derive(
            edge_probabilities(adjacency.strength),
            adjacency.fields.tolist(),
            adjacency.columns.tolist(),
            edges,
            CROSSES_AN_ORDER,
        )
        return with_figures(crosses, self.crosses)

    def dataset(self, directory: str | None = None) -> Dataset:
        """The dataset of the search, or the same one at another place."""
        dataset = Dataset.open(directory or self.manifest["dataset"])
        if fingerprint(dataset) != self.manifest["fingerprint"]:
            raise UserError(
                f"{dataset.directory}: is not the dataset that {self.directory} was searched on; "
                "its encoding or its rows differ. Name the right one with --dataset."
            )
        return dataset

    def member_paths(self) -> list[str]:
        """The checkpoints of the models whose predictions are averaged."""
        count = self.manifest["members"]
        return [member_path(self.directory, index) for index in range(count)]

    def _write_manifest(self) -> None:
        content = json.dumps(self.manifest, indent=1, ensure_ascii=False)
        storage.write(storage.join(self.directory, MANIFEST), content.encode())


def open_run(
    directory: str, dataset: Dataset, config: Config, kind: str, resume: bool, overwrite: bool
) -> Run:
    """Finds the run to go on with, or begins one.

    Args:
        directory: The run directory.
        dataset: The dataset.
        config: The configuration, resolved.
        kind: SEARCH or FIT.
        resume: Go on with a run that was stopped.
        overwrite: Replace what is in the run directory.
    """
    if overwrite:
        clear(directory)
    run = Run.find(directory)
    if run is None:
        if storage.exists(storage.join(directory, TUNE)):
            raise UserError(
                f"{directory}: holds a search with --tune; --resume with --tune goes on with it, "
                "--overwrite replaces it."
            )
        return Run.begin(directory, dataset, config, kind)
    if run.kind != kind:
        raise UserError(
            f"{directory}: holds a {run.kind}; choose another directory, or give --overwrite to "
            "replace it."
        )
    if not resume:
        raise UserError(
            f"{directory}: holds a {kind}; --resume goes on with it, --overwrite replaces it."
        )
    run.dataset(dataset.directory)
    old, new = (dataclasses.asdict(one) for one in (run.config, config))
    other = [name for name in old if old[name] != new[name] and name not in _MAY_DIFFER]
    if other:
        raise UserError(
            f"{directory}: was begun with `{other[0]}` = {old[other[0]]}, not {new[other[0]]}; "
            "resume with the same settings, or start again with --overwrite."
        )
    storage.remove_asides(directory)
    return run


def check_place(directory: str) -> None:
    """Refuses a directory with anything in it that is no run."""
    if storage.exists(directory) and not storage.is_directory(directory):
        raise UserError(f"{directory}: is a file; choose another place for the run.")
    if storage.names(directory) and not _is_run(directory):
        raise UserError(f"{directory}: is not empty, and holds no run; choose another directory.")


def clear(directory: str) -> None:
    """Removes a run, first of all what makes it look complete; what else is there stays."""
    for name in FILES:
        storage.remove(storage.join(directory, name))
    storage.remove_asides(directory)


def member_path(directory: str, index: int) -> str:
    """The checkpoint of one of the models that a run ends with, for TensorFlow."""
    return storage.for_tensorflow(storage.join(directory, MEMBERS, str(index)))


def fingerprint(dataset: Dataset) -> dict[str, Any]:
    """What tells a dataset from another, wherever it lies."""
    return {
        "made_from": dataset.manifest["fingerprint"],
        "rows": {name: split.rows for name, split in dataset.splits.items()},
    }


def _is_run(directory: str) -> bool:
    """Whether a directory holds a run, be it one that has only just begun."""
    names = {name for name in storage.names(directory) if not name.endswith(storage.ASIDE)}
    if LOCK in names and names <= {LOCK, *FILES}:
        return True
    try:
        return "fingerprint" in json.loads(storage.read(storage.join(directory, MANIFEST)))
    except (UserError, ValueError, TypeError):
        return False
