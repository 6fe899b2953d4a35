"""The search against its limits: rows a second and peak memory, as the embedding table grows.

    python benchmarks/search_speed.py --out benchmarks/results/search_speed.json

For each size of the table it writes a dataset, and then trains the search stage on it through the
real loop: rows from TFRecords, nothing held in memory, each batch of train with one of valid. That
is done with the paper's form (an embedding) and the default form (a first-order table besides),
and beside them, at a million rows or the next size below,

- keras: the same network with `keras.layers.Embedding` and Keras' Adam, which is dense;
- dnn: a plain network of 256 and 128 hidden units with the same row-sparse Adam for its table,
  trained on one batch a step;
- gemm: nothing but the matrix products of the forward pass of FIVES for both batches, which no
  program that computes them can beat.

Each measurement has a process of its own. Use it on an idle machine.
"""

import argparse
import os
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import harness
import numpy as np
import pyarrow as pa

from fives_tf.dataset import MANIFEST, manifest_json
from fives_tf.encoding import FIRST_VALUE, Encoding, VocabularyField
from fives_tf.errors import UserError
from fives_tf.records import frame_examples
from fives_tf.tables import print_table

SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
REFERENCE = 1_000_000  # the size at which speed is judged and rivals are measured
FORMS = ("paper", "default")
KERAS_SHARE = 5  # Keras' steps are slow, so one in so many is enough
LEAST_ROWS, AIM_ROWS = 25_000, 51_600  # training rows a second
MOST_SLOWDOWN = 1.5  # of a step, from the smallest table to the largest
MOST_MEMORY, FREE_MEBIBYTES = 1.5, 2048  # peak over table and slots, besides the free part
SHARD_ROWS = 50_000
ZIPF = 1.0
EFFECT = 0.1


@dataclass(frozen=True)
class Shape:
    """The data and the model to measure with.

    Attributes:
        fields: The number of fields, m.
        dim: The dimension of the embedding, d.
        order: The highest order of crosses, K.
        batch: The rows of a batch.
        rows: The train rows of a dataset; it has a tenth as many for valid.
        seed: Decides what is drawn.
    """

    fields: int = 39
    dim: int = 16
    order: int = 3
    batch: int = 1024
    rows: int = 400_000
    seed: int = 0


@dataclass(frozen=True)
class Task:
    """One measurement.

    Attributes:
        name: What to measure: a form of FIVES or a rival.
        size: The number of rows that the embedding table is to have.
        steps: About how many steps are timed, after a warm-up.
        shape: The data and the model.
        directory: Where the dataset is, and checkpoints may go.
    """

    name: str
    size: int
    steps: int
    shape: Shape
    directory: str


def main() -> int:
    """The command line."""
    return harness.command_line("search_speed", run)


def run(argv: list[str] | None = None) -> dict[str, Any]:
    """Measures, prints the table and the verdicts, and returns the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=_sizes, default=list(SIZES), metavar="N,...")
    parser.add_argument("--steps", type=int, default=300, help="about how many steps are timed")
    for name, default in asdict(Shape()).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    harness.add_out_flag(parser)
    args = parser.parse_args(argv)
    shape = Shape(**{name: getattr(args, name) for name in asdict(Shape())})
    if min(args.sizes) // shape.fields <= FIRST_VALUE or shape.rows // 10 < shape.batch:
        raise UserError(
            f"expected sizes of at least {FIRST_VALUE + 1} values a field, and at least ten times "
            "as many rows as a batch has."
        )
    load = os.getloadavg()[0]
    measured = []
    for size in args.sizes:
        with tempfile.TemporaryDirectory() as temporary:
            measured += measure_size(size, args.sizes, args.steps, shape, temporary)
    compare(measured)
    print_measured(measured)
    criteria = judge(measured, args.sizes)
    for criterion in criteria:
        verdict = "reached" if criterion["reached"] else "NOT reached"
        print(f"{criterion['what']}: {criterion['value']:,}, {criterion['limit']}, {verdict}")
    result = {
        "shape": asdict(shape),
        "zipf_exponent": ZIPF,
        "steps": args.steps,
        "measured": measured,
        "criteria": criteria,
        "machine": harness.machine() | {"load_before": round(load, 2)},
        "versions": harness.versions(harness.TRAINING),
    }
    harness.write_result(result, args.out)
    return result


def measure_size(
    size: int, sizes: list[int], steps: int, shape: Shape, directory: str
) -> list[dict[str, Any]]:
    """Writes the dataset of a size, and measures on it one after the other."""
    task = Task("write", size, steps, shape, directory)
    harness.in_own_process(write_dataset, task)
    tasks = [replace(task, name=form) for form in FORMS]
    is_reference = size == reference_size(sizes)
    if is_reference or size == min(sizes):
        tasks.append(replace(task, name="keras", steps=max(1, steps // KERAS_SHARE)))
    if is_reference:
        tasks += [replace(task, name=name) for name in ("dnn", "gemm")]
    measured = []
    for task in tasks:
        print(f"{task.name}, {size:,} rows", file=sys.stderr, flush=True)
        found = harness.in_own_process(measure, task)
        measured.append({"name": task.name, "size": size} | found)
        shutil.rmtree(Path(directory) / "run", ignore_errors=True)
    return measured


def measure(task: Task) -> dict[str, float]:
    """One measurement; see `search_step`, which only the process that measures loads."""
    import search_step

    return search_step.measure(task)


def reference_size(sizes: list[int]) -> int:
    """The size at which speed is judged: a million, or the next one below that there is."""
    return max((size for size in sizes if size <= REFERENCE), default=min(sizes))


def write_dataset(task: Task) -> None:
    """Writes a dataset directory: fields of one size, values by Zipf's law, clicks by their sum."""
    shape, directory = task.shape, Path(task.directory)
    values = task.size // shape.fields - FIRST_VALUE
    random = np.random.default_rng(shape.seed)
    weights = 1 / np.arange(1, values + 1) ** ZIPF
    edges = np.cumsum(weights / weights.sum())[:-1]
    offsets = np.arange(shape.fields, dtype=np.int32) * (values + FIRST_VALUE) + FIRST_VALUE
    effects = random.normal(0, EFFECT, (values + FIRST_VALUE) * shape.fields)
    counts = np.zeros((values + FIRST_VALUE) * shape.fields, np.int64)
    splits: dict[str, list[dict[str, Any]]] = {"train": [], "valid": []}
    for split, rows in (("train", shape.rows), ("valid", shape.rows // 10)):
        (directory / split).mkdir()
        for start in range(0, rows, SHARD_ROWS):
            number = min(SHARD_ROWS, rows - start)
            drawn = np.searchsorted(edges, random.random((number, shape.fields)))
            ids = drawn.astype(np.int32) + offsets
            chance = 1 / (1 + np.exp(1 - effects[ids].sum(axis=1)))
            label = (random.random(number) < chance).astype(np.float32)
            if split == "train":
                counts += np.bincount(ids.ravel(), minlength=len(counts))
            content = b"".join(frame_examples(ids, label).to_pylist())
            name = f"{split}/{start:09d}.tfrecord"
            (directory / name).write_bytes(content)
            shard = {"rows": number, "clicks": int(label.sum()), "bytes": len(content)}
            splits[split].append({"file": name} | shard)
    vocabulary = pa.array([b"%d" % value for value in range(values)], pa.large_binary())
    fields = tuple(
        VocabularyField(f"C{index}", f"C{index}", (), 0, 0, vocabulary, part[FIRST_VALUE:])
        for index, part in enumerate(np.split(counts, shape.fields), start=1)
    )
    for name, content in Encoding(fields, shape.rows).to_files().items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(content)
    names = [field.name for field in fields]
    (directory / MANIFEST).write_bytes(manifest_json(names, splits, ""))


def compare(measured: list[dict[str, Any]]) -> None:
    """Adds to each measurement how many times as fast the paper's form is with the same table."""
    paper = {m["size"]: m["rows_per_second"] for m in measured if m["name"] == "paper"}
    for found in measured:
        found["paper_ratio"] = round(paper[found["size"]] / found["rows_per_second"], 3)


def judge(measured: list[dict[str, Any]], sizes: list[int]) -> list[dict[str, Any]]:
    """What is asked of the search, form by form."""
    criteria = []

    def add(what: str, value: float, limit: str, reached: bool) -> None:
        criteria.append({"what": what, "value": value, "limit": limit, "reached": reached})

    for form in FORMS:
        by_size = {m["size"]: m for m in measured if m["name"] == form}
        size, least, most = reference_size(sizes), min(sizes), max(sizes)
        rate = by_size[size]["rows_per_second"]
        limit = f"at least {LEAST_ROWS:,} (the aim is {AIM_ROWS:,})"
        add(f"{form}: rows a second at {size:,} rows", rate, limit, rate >= LEAST_ROWS)
        slowdown = by_size[most]["step_milliseconds"] / by_size[least]["step_milliseconds"]
        what = f"{form}: a step at {most:,} rows over one at {least:,}"
        add(what, round(slowdown, 3), f"at most {MOST_SLOWDOWN}", slowdown <= MOST_SLOWDOWN)
        for size, found in by_size.items():
            limit = round(MOST_MEMORY * found["table_mebibytes"] + FREE_MEBIBYTES)
            peak = found["peak_mebibytes"]
            what = f"{form}: peak memory in MiB at {size:,} rows"
            add(what, peak, f"at most {limit:,}", peak <= limit)
    return criteria


def print_measured(measured: list[dict[str, Any]]) -> None:
    """Prints the measurements side by side."""
    header = (
        "what",
        "table rows",
        "rows/s",
        "ms a step",
        "peak MiB",
        "table MiB",
        "paper's form is",
    )
    print_table(
        header,
        [
            (
                found["name"],
                f"{found['size']:,}",
                f"{found['rows_per_second']:,}",
                f"{found['step_milliseconds']:.2f}",
                f"{found['peak_mebibytes']:,}",
                f"{found['table_mebibytes']:,}",
                f"{found['paper_ratio']:.2f} times as fast",
            )
            for found in measured
        ],
    )


def _sizes(text: str) -> list[int]:
    try:
        return sorted({int(float(size)) for size in text.split(",")})
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected sizes such as 10000,1e6: {text!r}.") from None


if __name__ == "__main__":
    sys.exit(main())
