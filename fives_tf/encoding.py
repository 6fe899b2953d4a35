"""Value -> id: fitted once, the same for the pipeline, for tests and for the serving graph.

Ids of a field: 0 missing, 1 rare or unseen, from 2 on the values. A global id is the field's offset
plus the id within the field, so that a model gathers all fields from one table.

This module is the Arrow face and needs no TensorFlow; `Encoding.tensorflow` gives the other face,
which must yield the same ids for the same raw row.
"""

import abc
import functools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import farmhash
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fives_tf import storage
from fives_tf.errors import UserError

VERSION = 1
ENCODING = "encoding.json"
MISSING = 0
RARE = 1
FIRST_VALUE = 2
MOST_IDS = 2**31 - 1
LONGEST_NAME = 100
LEAST_NUMBER = np.finfo(np.float32).tiny


@dataclass(frozen=True)
class Field(abc.ABC):
    """One field: how the values of a column become ids.

    Attributes:
        name: The name of the field, such as `age@10`.
        column: The column of the log that it is made from; siblings share it.
        missing: The texts that mean that there is no value.
        missing_count: How many of the rows that the encoding was fitted on have no value.
        rare_count: How many of them have a value that shares the id 1.
    """

    name: str
    column: str
    missing: tuple[str, ...]
    missing_count: int
    rare_count: int

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """The word for this kind of field in `encoding.json`."""

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number of ids, those for missing and rare included."""

    @abc.abstractmethod
    def encode(self, values: pa.Array) -> np.ndarray:
        """The ids, within the field, of a clean column (see `fives_tf.parsing`)."""


@dataclass(frozen=True, eq=False)
class VocabularyField(Field):
    """A categorical field whose frequent values have ids of their own, by falling count.

    A value with a line break cannot stand in a vocabulary file and is always rare.
    """

    values: pa.Array
    counts: np.ndarray

    kind = "vocabulary"

    @property
    def size(self) -> int:
        """See `Field.size`."""
        return FIRST_VALUE + len(self.values)

    def encode(self, values: pa.DictionaryArray) -> np.ndarray:
        """See `Field.encode`."""
        found = pc.index_in(pc.cast(values.dictionary, self.values.type), value_set=self.values)
        ids = found.fill_null(RARE - FIRST_VALUE).to_numpy() + FIRST_VALUE
        return _spread(values, ids, self.missing)


@dataclass(frozen=True, eq=False)
class HashField(Field):
    """A categorical field without a vocabulary: FarmHash's Fingerprint64 modulo `buckets`."""

    buckets: int

    kind = "hash"

    @property
    def size(self) -> int:
        """See `Field.size`."""
        return FIRST_VALUE + self.buckets

    def encode(self, values: pa.DictionaryArray) -> np.ndarray:
        """See `Field.encode`."""
        hashes = [farmhash.Fingerprint64(v or b"") for v in values.dictionary.to_pylist()]
        ids = np.array(hashes, np.uint64) % np.uint64(self.buckets)
        return _spread(values, ids.astype(np.int64) + FIRST_VALUE, self.missing)


@dataclass(frozen=True, eq=False)
class BucketField(Field):
    """A numeric field: bucket i holds edges[i-1] <= x < edges[i], compared in single precision.

    Single precision is what a `tf.train.Example` carries, so no way into the model differs.

    Attributes:
        edges: The inner edges, rising, float32.
        ids: The id of each bucket, in the order of the buckets; rare buckets have id 1.
        counts: How many of the fitted rows have id 2, 3, ...
    """

    edges: np.ndarray
    ids: np.ndarray
    counts: np.ndarray

    kind = "buckets"

    @property
    def size(self) -> int:
        """See `Field.size`."""
        return FIRST_VALUE + len(self.counts)

    def encode(self, values: pa.Array) -> np.ndarray:
        """See `Field.encode`."""
        numbers = to_single(values)
        ids = self.ids[np.searchsorted(self.edges, numbers, side="right")]
        return np.where(self.is_missing(numbers), MISSING, ids)

    def is_missing(self, numbers: np.ndarray) -> np.ndarray:
        """Which numbers mean that there is no value."""
        return is_missing_number(numbers, self.missing_numbers)

    def bucket_name(self, identity: int) -> str:
        """What the values of an id from 2 on have in common, such as `[10, 20)`."""
        bucket = int(np.flatnonzero(self.ids == identity)[0])
        low = f"[{self.edges[bucket - 1]:g}" if bucket else "(-inf"
        high = f"{self.edges[bucket]:g}" if bucket < len(self.edges) else "inf"
        return f"{low}, {high})"

    @functools.cached_property
    def missing_numbers(self) -> np.ndarray:
        """The missing markers that are numbers, such as -1."""
        return missing_numbers(self.missing)


class Encoding:
    """All fields of a log.

    Example:
        encoding = Encoding.load("dataset")
        encoding.encode(rows.batch)  # int32 array [rows, fields] of global ids
    """

    def __init__(self, fields: tuple[Field, ...], rows: int):
        """Puts the fields one after the other in the space of global ids.

        Args:
            fields: The fields in the order of their ids.
            rows: The number of rows that the encoding was fitted on.
        """
        self.fields = fields
        self.rows = rows
        self.offsets = tuple(np.cumsum([0, *(field.size for field in fields)])[:-1].tolist())
        self.size = sum(field.size for field in fields)

    def encode(self, batch: pa.RecordBatch) -> np.ndarray:
        """The global ids, int32 [rows, fields], of a clean batch (see `fives_tf.parsing`)."""
        ids = np.empty((batch.num_rows, len(self.fields)), np.int32)
        for index, (field, offset) in enumerate(zip(self.fields, self.offsets, strict=True)):
            ids[:, index] = field.encode(batch.column(field.column)) + offset
        return ids

    def tensorflow(self, directory: str | Path) -> Any:
        """The TensorFlow face, which writes its vocabulary into `directory`."""
        from fives_tf.encoding_tf import EncodingModule

        return EncodingModule(self, directory)

    def to_files(self) -> dict[str, bytes]:
        """The files, by relative path, that a person can read and `from_files` reads back."""
        files = {ENCODING: encoding_json(map(field_document, self.fields), self.rows)}
        for field in self.fields:
            if isinstance(field, VocabularyField):
                files |= vocabulary_files(field.name, field.values, field.counts)
        return files

    @classmethod
    def from_files(cls, read: Callable[[str], bytes]) -> "Encoding":
        """Reads an encoding whose files `read` returns by relative path."""
        document = json.loads(read(ENCODING))
        if document.get("version") != VERSION:
            raise UserError(
                f"{ENCODING}: version {document.get('version')} is not known to this program, "
                f"which reads version {VERSION}. Preprocess the log again."
            )
        fields = tuple(_field_from_document(item, read) for item in document["fields"])
        return cls(fields, document["rows"])

    @classmethod
    def load(cls, directory: str) -> "Encoding":
        """Reads the encoding of a dataset directory."""
        return cls.from_files(lambda name: storage.read(storage.join(directory, name)))


def field_document(field: Field) -> dict[str, Any]:
    """What `encoding.json` says about a field; a vocabulary stands in files of its own."""
    document: dict[str, Any] = {
        "name": field.name,
        "column": field.column,
        "kind": field.kind,
        "size": field.size,
        "missing": list(field.missing),
        "missing_count": field.missing_count,
        "rare_count": field.rare_count,
    }
    if isinstance(field, VocabularyField):
        document["vocabulary"] = vocabulary_path(field.name)
        document["counts"] = counts_path(field.name)
    elif isinstance(field, HashField):
        document["buckets"] = field.buckets
    elif isinstance(field, BucketField):
        document["edges"] = [float(str(edge)) for edge in field.edges]  # the shortest decimals
        document["ids"] = field.ids.tolist()
        document["counts"] = field.counts.tolist()
    return document


def encoding_json(documents: Iterable[dict[str, Any]], rows: int) -> bytes:
    """The content of `encoding.json` from what it says about each field, in order."""
    fields, offset = [], 0
    for document in documents:
        fields.append(document | {"offset": offset})
        offset += document["size"]
    if offset > MOST_IDS:
        raise UserError(
            f"the fields have {offset:,} ids together, more than the {MOST_IDS:,} that there can "
            "be; lower `max_vocab` or `hash_buckets`."
        )
    content = {"version": VERSION, "rows": rows, "size": offset, "fields": fields}
    return json.dumps(content, indent=1, ensure_ascii=False).encode()


def vocabulary_path(name: str) -> str:
    """The relative path of a field's vocabulary, one value a line, the first one with id 2."""
    return f"vocab/{_file_name(name)}"


def counts_path(name: str) -> str:
    """The relative path of the counts of a field's values, line by line as in the vocabulary."""
    return f"counts/{_file_name(name)}"


def vocabulary_files(name: str, values: pa.Array, counts: np.ndarray) -> dict[str, bytes]:
    """The files of a vocabulary by relative path."""
    return {
        vocabulary_path(name): b"".join(value + b"\n" for value in values.to_pylist()),
        counts_path(name): "".join(f"{count}\n" for count in counts.tolist()).encode(),
    }


def parse_number(text: str) -> float | None:
    """The number that `text` means in a log, or None if it means none."""
    try:
        return pc.cast(pa.array([text]), pa.float64())[0].as_py()
    except pa.ArrowInvalid:
        return None


def missing_numbers(markers: tuple[str, ...]) -> np.ndarray:
    """The missing markers that are numbers, in single precision."""
    numbers = [parse_number(marker) for marker in markers]
    return np.array([number for number in numbers if number is not None], np.float32)


def is_missing_number(numbers: np.ndarray, markers: np.ndarray) -> np.ndarray:
    """Which numbers of a clean numeric column, in single precision, mean that there is none."""
    return np.isnan(numbers) | np.isin(numbers, markers)


def to_single(values: pa.Array) -> np.ndarray:
    """A clean numeric column as float32 with NaN where it is null."""
    with np.errstate(over="ignore"):
        return flush(values.to_numpy(zero_copy_only=False).astype(np.float32))


def flush(numbers: np.ndarray) -> np.ndarray:
    """Numbers too close to zero for full precision become zero, as they do in TensorFlow."""
    return np.where(np.abs(numbers) < LEAST_NUMBER, np.float32(0), numbers)


def is_missing_category(values: pa.Array, missing: tuple[str, ...]) -> np.ndarray:
    """Which of the distinct values of a clean categorical column mean that there is none."""
    markers = pa.array([marker.encode() for marker in missing], values.type)
    return pc.is_in(values, value_set=markers).to_numpy(zero_copy_only=False)


def _file_name(field: str) -> str:
    """A file name for any field name; long ones are cut and told apart by a hash."""
    name = quote(field, safe=" ()=+,")
    if len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}-{farmhash.Fingerprint64(field.encode()):016x}"
    return f"{name}.txt"


def _spread(values: pa.DictionaryArray, ids: np.ndarray, missing: tuple[str, ...]) -> np.ndarray:
    """The ids of the rows from those of the distinct values; null is missing."""
    ids = np.where(is_missing_category(values.dictionary, missing), MISSING, ids)
    ids = np.append(ids, MISSING)  # where a null row points
    return ids[values.indices.fill_null(len(ids) - 1).to_numpy()]


def _field_from_document(document: dict[str, Any], read: Callable[[str], bytes]) -> Field:
    common = {
        "name": document["name"],
        "column": document["column"],
        "missing": tuple(document["missing"]),
        "missing_count": document["missing_count"],
        "rare_count": document["rare_count"],
    }
    kind = document["kind"]
    if kind == VocabularyField.kind:
        lines = read(document["vocabulary"]).split(b"\n")[:-1]
        counts = np.array(read(document["counts"]).split(), np.int64)
        if not len(lines) == len(counts) == document["size"] - FIRST_VALUE:
            raise UserError(
                f"{document['vocabulary']}: is not as it was written; copy the dataset again, or "
                "preprocess the log again with --overwrite."
            )
        return VocabularyField(**common, values=pa.array(lines, pa.large_binary()), counts=counts)
    if kind == HashField.kind:
        return HashField(**common, buckets=document["buckets"])
    return BucketField(
        **common,
        edges=np.array(document["edges"], np.float32),
        ids=np.array(document["ids"], np.int64),
        counts=np.array(document["counts"], np.int64),
    )
