"""What a run tells while it trains: JSON lines for programs, TensorBoard for the eye."""

import base64
import contextlib
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from fives_tf import storage

METRICS = "metrics.jsonl"
SNAPSHOTS = "snapshots.jsonl"
TENSORBOARD = "tensorboard"

_PIXELS = 400
_WHITE, _INK = np.array([255, 255, 255]), np.array([8, 48, 107])
_BUCKETS = 30
_LEVELS = 255  # of a strength in a snapshot, which has a byte for each


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The adjacency tensor at a step of the search.

    Attributes:
        step: The training step.
        temperature: The temperature.
        soft: The edges' strengths from 0 to 1, to the next of 256 levels: [K - 1, fields, fields].
    """

    step: int
    temperature: float
    soft: np.ndarray


def read(directory: str) -> list[dict[str, Any]]:
    """The lines of `metrics.jsonl`, in the order of their writing; none if there is no file.

    A torn line, which a killed program may leave, is left out.
    """
    records = map(_parse, _lines(storage.join(directory, METRICS)))
    return [record for record in records if record is not None]


def read_snapshots(directory: str, stage: str) -> list[Snapshot]:
    """The adjacency tensors of a stage, in the order of their writing; none if there is no file."""
    snapshots = []
    for record in map(_parse, _lines(storage.join(directory, SNAPSHOTS))):
        if record is not None and record["stage"] == stage:
            levels = np.frombuffer(base64.b64decode(record["soft"]), np.uint8)
            soft = levels.reshape(record["shape"]) / _LEVELS
            snapshots.append(Snapshot(record["step"], record["temperature"], soft))
    return snapshots


class Journal:
    """Writes the metrics of a run, stage by stage.

    Nothing needs to be closed: every call leaves all it was told on the disk. A training loop that
    starts, anew or from a checkpoint, calls `rewind` first.
    """

    def __init__(self, directory: str):
        """Keeps a journal in a run directory, which is made when there is something to tell."""
        self._directory = directory
        self._path = storage.join(directory, METRICS)
        self._snapshots = storage.join(directory, SNAPSHOTS)
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def write(self, stage: str, step: int, **values: Any) -> None:
        """Adds a line to `metrics.jsonl`, and its numbers to TensorBoard.

        Args:
            stage: The part of the run, such as `search`.
            step: The training step.
            **values: Numbers, texts, and lists of them, such as the AUC a layer; of NumPy too. What
                is not finite becomes null.
        """
        values = {name: _plain(value) for name, value in values.items()}
        record = {"stage": stage, "step": int(step), "time": round(time.time()), **values}
        storage.append(self._path, json.dumps(record).encode() + b"\n")
        with self._tensorboard(stage):
            for name, value in values.items():
                _write_scalars(name, value, step)

    def adjacency(self, stage: str, step: int, adjacency: np.ndarray, temperature: float) -> None:
        """Keeps the adjacency tensor; TensorBoard shows a histogram and an image a layer.

        Args:
            stage: The part of the run.
            step: The training step.
            adjacency: The edges' strengths from 0 to 1, [K - 1, fields, fields].
            temperature: The temperature they were computed with.
        """
        adjacency = np.nan_to_num(adjacency)
        levels = (adjacency * _LEVELS).round().astype(np.uint8)
        record = {
            "stage": stage,
            "step": int(step),
            "temperature": _plain(float(temperature)),
            "shape": list(levels.shape),
            "soft": base64.b64encode(levels.tobytes()).decode(),
        }
        storage.append(self._snapshots, json.dumps(record).encode() + b"\n")
        with self._tensorboard(stage):
            _write_scalars("temperature", float(temperature), step)
            for layer, strengths in enumerate(adjacency, start=1):
                _write_histogram(f"strengths/{layer}", strengths, step)
                _write_image(f"adjacency/{layer}", _picture(strengths), step)

    def rewind(self, stage: str, step: int) -> None:
        """Removes the lines of a stage after a step, where training goes on, and torn lines.

        The files of TensorBoard stay as they are. `tf.summary` has no `purge_step`, but the loader
        that TensorBoard uses by default drops what a curve holds from a step on when that step
        comes again; with `--load_fast=false` both courses are drawn.
        """
        for path in (self._path, self._snapshots):
            lines = _lines(path)
            records = map(_parse, lines)
            kept = [
                line
                for line, record in zip(lines, records, strict=True)
                if record is not None and (record["stage"] != stage or record["step"] <= step)
            ]
            if kept != lines:
                storage.write(path, b"".join(kept))

    @contextlib.contextmanager
    def _tensorboard(self, stage: str) -> Iterator[None]:
        if stage not in self._writers:
            directory = storage.join(self._directory, TENSORBOARD, stage)
            place = storage.for_tensorflow(directory)
            self._writers[stage] = tf.summary.create_file_writer(place)
        with self._writers[stage].as_default():
            yield
        self._writers[stage].flush()


def _lines(path: str) -> list[bytes]:
    return storage.read(path).splitlines(keepends=True) if storage.exists(path) else []


def _parse(line: bytes) -> dict[str, Any] | None:
    """The record of a line, or None if the line is torn."""
    if not line.endswith(b"\n"):
        return None
    try:
        return json.loads(line)
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _picture(strengths: np.ndarray) -> np.ndarray:
    """An edge is a square, the darker the stronger: uint8 [height, width, 3]."""
    colours = _WHITE + strengths[:, :, None] * (_INK - _WHITE)
    size = max(_PIXELS // len(strengths), 1)
    return colours.round().astype(np.uint8).repeat(size, axis=0).repeat(size, axis=1)


def _write_scalars(name: str, value: Any, step: int) -> None:
    if isinstance(value, list):
        for index, part in enumerate(value):
            _write_scalars(f"{name}/{index}", part, step)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _write_summary("scalars", name, tf.constant(value, tf.float32), step)


def _write_histogram(name: str, strengths: np.ndarray, step: int) -> None:
    counts, edges = np.histogram(strengths, _BUCKETS, range=(0, 1))
    _write_summary("histograms", name, np.stack([edges[:-1], edges[1:], counts], axis=1), step)


def _write_image(name: str, picture: np.ndarray, step: int) -> None:
    height, width, _ = picture.shape
    png = tf.io.encode_png(picture).numpy()
    _write_summary("images", name, tf.constant([b"%d" % width, b"%d" % height, png]), step)


def _write_summary(plugin: str, name: str, tensor: Any, step: int) -> None:
    # Not by `tf.summary.scalar` and the like: they need the package tensorboard, which TensorFlow
    # does not bring any more from 2.21 on.
    kind = tf.compat.v1.SummaryMetadata.PluginData(plugin_name=plugin)
    metadata = tf.compat.v1.SummaryMetadata(plugin_data=kind)
    tf.summary.write(name, tensor, step=step, metadata=metadata)
