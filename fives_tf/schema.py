"""What the user says about a log, written once in YAML and read into frozen values."""

import dataclasses
import itertools
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fives_tf.errors import UserError, nearest
from fives_tf.mapping import Mapping
from fives_tf.scored_log import Scoring

VERSION = 1
SPLITS = ("train", "valid", "test")
FORMATS = ("csv", "tsv", "parquet")
DISCRETIZE_KINDS = ("width", "quantile", "log", "edges")
SPLIT_KINDS = ("random", "hash", "position", "time", "files")


@dataclass(frozen=True)
class Format:
    """How the files are laid out. Compression is told by the ending (`.gz`, `.zst`)."""

    kind: str = "csv"
    header: bool = True
    columns: tuple[str, ...] = ()
    delimiter: str = ","
    quote: str | None = '"'
    comment: str | None = None
    trim: bool = False


@dataclass(frozen=True)
class Label:
    """The label column and which of its values mean a click and which do not."""

    column: str
    positive: tuple[str, ...] = ("1",)
    negative: tuple[str, ...] = ("0",)


@dataclass(frozen=True)
class Discretize:
    """How a numeric column is cut into buckets; each granularity becomes a field of its own.

    Attributes:
        kind: How the edges are found.
        buckets: The numbers of buckets.
        edges: The edges, if the schema says them.
        values: Whether one more field has a bucket for each distinct value, unless there are too
            many of them.
    """

    kind: str = "quantile"
    buckets: tuple[int, ...] = (10, 100)
    edges: tuple[float, ...] = ()
    values: bool = False


@dataclass(frozen=True)
class Column:
    """A column that becomes one field, or one a granularity if it is numeric."""

    name: str
    numeric: bool
    missing: tuple[str, ...] = ("",)
    min_count: int = 5
    discretize: Discretize | None = None
    max_vocab: int | None = None
    hash_buckets: int | None = None

    def field_names(self) -> tuple[str, ...]:
        """The names of this column's fields, such as `age@10`, `age@30` and `age@value`."""
        if self.discretize is None:
            return (self.name,)
        names = [f"{self.name}@{buckets}" for buckets in self.discretize.buckets] or [self.name]
        return (*names, f"{self.name}@value") if self.discretize.values else tuple(names)


@dataclass(frozen=True)
class SplitRule:
    """How rows are dealt out to train, valid and test; what the kind has no use for is None.

    The validation part always exists: the adjacency tensor is learned on it.
    """

    by: str = "random"
    valid: float | None = 0.1
    test: float | None = 0.1
    seed: int = 0
    key: str | None = None
    column: str | None = None
    valid_from: str | None = None
    test_from: str | None = None
    valid_rows: str | None = None
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def columns(self) -> tuple[str, ...]:
        """The columns that the split itself reads."""
        return tuple(name for name in (self.key, self.column) if name is not None)

    def times_are_numbers(self) -> bool:
        """Whether the bounds of a split by time are numbers; else times are compared as text."""
        bounds = [bound for bound in (self.valid_from, self.test_from) if bound is not None]
        return bool(bounds) and all(map(_is_number, bounds))

    def splits(self) -> tuple[str, ...]:
        """The splits that can hold rows."""
        has_test = bool(self.test) or self.test_from is not None or "test" in self.files
        return SPLITS if has_test else SPLITS[:2]


@dataclass(frozen=True)
class Schema:
    """Everything known about a log before it is read."""

    format: Format
    label: Label
    columns: tuple[Column, ...]
    drop: tuple[str, ...]
    split: SplitRule
    scoring: Scoring | None = None  # not part of the file: `for_scoring` sets it

    @classmethod
    def load(cls, path: str | Path) -> "Schema":
        """Reads and checks a schema file."""
        return cls.from_mapping(Mapping.load(path))

    @classmethod
    def parse(cls, text: str, place: str = "schema") -> "Schema":
        """Reads and checks a schema given as YAML text."""
        return cls.from_mapping(Mapping.parse(text, place))

    @classmethod
    def from_mapping(cls, mapping: Mapping) -> "Schema":
        """Reads and checks a schema."""
        version = mapping.integer("version", VERSION)
        if version != VERSION:
            raise UserError(
                f"{mapping.place}: schema version {version} is not known to this program, which "
                f"reads version {VERSION}. Use the fives-tf release that wrote it."
            )
        schema = cls(
            format=_read_format(mapping),
            label=_read_label(mapping.mapping("label")),
            columns=_read_columns(mapping),
            drop=mapping.texts("drop", ()),
            split=_read_split(mapping.mapping("split")),
        )
        mapping.finish()
        schema._check_names(mapping.place)
        return schema

    def for_scoring(self, scoring: Scoring) -> "Schema":
        """What describes a log whose rows are only scored.

        Such a log needs neither the label nor the columns of the split, it may have columns that
        the schema does not know, and bad rows keep their place.
        """
        return dataclasses.replace(self, drop=(), split=SplitRule(), scoring=scoring)

    def to_yaml(self) -> str:
        """The schema as YAML text that `parse` reads back to an equal value."""
        form, label, split = self.format, self.label, self.split
        document: dict[str, Any] = {"version": VERSION, "format": form.kind}
        if form.kind != "parquet":
            document |= {"header": form.header, "delimiter": form.delimiter, "trim": form.trim}
            document["quote"] = form.quote or False
            if form.columns:
                document["columns"] = list(form.columns)
            if form.comment:
                document["comment"] = form.comment
        document["label"] = _plain(label)
        document["drop"] = list(self.drop)
        document["numeric"] = [column.name for column in self.columns if column.numeric]
        document["categorical"] = [column.name for column in self.columns if not column.numeric]
        document["overrides"] = {column.name: _override(column) for column in self.columns}
        document["split"] = {
            key: value for key, value in _plain(split).items() if value not in (None, {})
        }
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
        # YAML would read this sign back as a line feed unless it is written as \\N.
        ascii_only = "\N{NEXT LINE}" in text
        return yaml.safe_dump(document, sort_keys=False, width=100) if ascii_only else text

    def field_names(self) -> tuple[str, ...]:
        """The names of all fields in the order of their ids."""
        return tuple(name for column in self.columns for name in column.field_names())

    def used_columns(self) -> set[str]:
        """The columns whose values matter."""
        kept = self.scoring.keep if self.scoring else ()
        return {self.label.column, *self.split.columns(), *(c.name for c in self.columns), *kept}

    def check_columns(self, present: tuple[str, ...], file: str) -> None:
        """Refuses a file whose columns are not those that the schema describes."""
        doubled = {name for name in present if present.count(name) > 1}
        if self.scoring is not None:
            doubled &= self.used_columns()
        if doubled:
            raise UserError(
                f"{file}: the column `{min(doubled)}` occurs twice; rename one of them."
            )
        if self.scoring is not None:
            features = [column.name for column in self.columns]
            self.scoring.check_columns(features, present, file)
            return
        described = self.used_columns() | set(self.drop)
        for name in sorted(described - set(present)):
            raise UserError(
                f"{file}: has no column `{name}`, which the schema names"
                f"{nearest(name, present)} Its columns: {', '.join(present)}."
            )
        unknown = [name for name in present if name not in described]
        if unknown:
            raise UserError(
                f"{file}: the schema says nothing about the column `{unknown[0]}`; "
                "list it under numeric, categorical or drop."
            )

    def _check_names(self, place: str) -> None:
        names = [column.name for column in self.columns]
        if not names:
            raise UserError(f"{place}: no feature; list columns under numeric or categorical.")
        for kind, items in (("column", [*names, *self.drop]), ("field", [*self.field_names()])):
            twice = [name for name in items if items.count(name) > 1]
            if twice:
                raise UserError(f"{place}: the {kind} `{twice[0]}` is named twice; remove one.")
        if self.label.column in names:
            raise UserError(
                f"{place}: the label column `{self.label.column}` is also a feature; "
                "remove it from numeric and categorical, or the model would read the answer."
            )
        if self.format.columns:
            self.check_columns(self.format.columns, f"{place}: columns")


def _read_format(mapping: Mapping) -> Format:
    kind = mapping.text("format", "csv", choices=FORMATS)
    if kind == "parquet":
        return Format(kind=kind, quote=None)
    header = mapping.flag("header", True)
    columns = mapping.texts("columns", ())
    if header and columns:
        raise UserError(
            f"{mapping.place}: `columns` is for files without a header; "
            "set `header: false` or remove `columns`."
        )
    if not header and not columns:
        raise UserError(
            f"{mapping.place}: `header: false` needs `columns`, the names of all columns in order."
        )
    delimiter = mapping.text("delimiter", "\t" if kind == "tsv" else ",")
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
    quote = mapping.text("quote", "false" if kind == "tsv" else '"')
    for key, value in (("delimiter", delimiter), ("quote", quote)):
        off = key == "quote" and value == "false"
        if not off and (len(value) != 1 or not value.isascii() or value in "\r\n"):
            raise mapping.error(key, "expected one ASCII character", value)
    if delimiter == quote:
        raise mapping.error("quote", "expected another sign than the delimiter", quote)
    return Format(
        kind=kind,
        header=header,
        columns=columns,
        delimiter=delimiter,
        quote=None if quote == "false" else quote,
        comment=mapping.text("comment", None) or None,
        trim=mapping.flag("trim", False),
    )


def _read_label(mapping: Mapping) -> Label:
    label = Label(
        column=mapping.text("column"),
        positive=mapping.texts("positive", ("1",)),
        negative=mapping.texts("negative", ("0",)),
    )
    mapping.finish()
    both = set(label.positive) & set(label.negative)
    if both:
        raise UserError(
            f"{mapping.place}: {min(both)!r} is listed as positive and as negative; remove one."
        )
    for key in ("positive", "negative"):
        if not getattr(label, key):
            raise mapping.error(key, "expected at least one value", [])
    return label


def _read_columns(mapping: Mapping) -> tuple[Column, ...]:
    numeric = mapping.texts("numeric", ())
    categorical = mapping.texts("categorical", ())
    default = Column(
        name="",
        numeric=False,
        missing=_missing(mapping.texts("missing", ("",))),
        min_count=mapping.integer("min_count", 5, minimum=1),
        max_vocab=mapping.integer("max_vocab", 1_000_000, minimum=1),
        discretize=_read_discretize(mapping.mapping("discretize"), Discretize()),
    )
    overrides = mapping.mapping("overrides")
    columns = []
    for name in (*numeric, *categorical):
        columns.append(_read_column(name, name in numeric, default, overrides.mapping(name)))
    overrides.finish()
    return tuple(columns)


def _read_column(name: str, numeric: bool, default: Column, mapping: Mapping) -> Column:
    missing = mapping.texts("missing", default.missing)
    min_count = mapping.integer("min_count", default.min_count, minimum=1)
    discretize = max_vocab = hash_buckets = None
    if numeric:
        discretize = _read_discretize(mapping.mapping("discretize"), default.discretize)
    else:
        hash_buckets = mapping.integer("hash_buckets", None, minimum=2)
        max_vocab = mapping.integer("max_vocab", default.max_vocab, minimum=1)
        if hash_buckets is not None:
            max_vocab = None
    mapping.finish()
    return Column(name, numeric, _missing(missing), min_count, discretize, max_vocab, hash_buckets)


def _read_discretize(mapping: Mapping, default: Discretize) -> Discretize:
    kind = mapping.text("kind", default.kind, choices=DISCRETIZE_KINDS)
    values = mapping.flag("values", default.values)
    if kind == "edges":
        edges = mapping.numbers("edges", *([default.edges] if default.edges else []))
        mapping.finish()
        rising = all(low < high for low, high in itertools.pairwise(edges))
        if not edges or not rising or not all(map(math.isfinite, edges)):
            raise mapping.error("edges", "expected finite numbers in rising order", list(edges))
        return Discretize(kind, (), edges, values)
    buckets = mapping.integers("buckets", default.buckets or Discretize.buckets, minimum=2)
    mapping.finish()
    if not buckets:
        raise mapping.error("buckets", "expected at least one number", [])
    return Discretize(kind, buckets, values=values)


def _read_split(mapping: Mapping) -> SplitRule:
    by = mapping.text("by", "random", choices=SPLIT_KINDS)
    values: dict[str, Any] = {"by": by, "valid": None, "test": None}
    values["seed"] = mapping.integer("seed", 0, minimum=0)
    if by in ("random", "hash", "position"):
        values["valid"] = mapping.number("valid", 0.1, 0, 1)
        values["test"] = mapping.number("test", 0.1, 0, 1)
        if values["valid"] <= 0 or values["valid"] + values["test"] >= 1:
            raise UserError(
                f"{mapping.place}: `valid` must be above 0 and `valid` + `test` below 1: the "
                "adjacency tensor is learned on the validation part, the network on the rest."
            )
    if by == "hash":
        values["key"] = mapping.text("key")
    if by == "position":
        values["valid_rows"] = mapping.text("valid_rows", "last", choices=("last", "random"))
    if by == "time":
        values["column"] = mapping.text("column")
        values["valid_from"] = mapping.text("valid_from")
        values["test_from"] = mapping.text("test_from", None)
        if values["test_from"] is not None and not _rises(
            values["valid_from"], values["test_from"]
        ):
            raise mapping.error(
                "test_from", "expected a time after `valid_from`", values["test_from"]
            )
    if by == "files":
        files = mapping.mapping("files")
        values["files"] = {
            name: files.texts(name) for name in SPLITS if files.texts(name, None) is not None
        }
        files.finish()
        if "train" not in values["files"]:
            raise UserError(f"{files.place}: the key `train` is missing; add its file patterns.")
        if "valid" not in values["files"]:
            values["valid"] = mapping.number("valid", 0.1, 0, 1)
            if not 0 < values["valid"] < 1:
                raise mapping.error("valid", "expected a part of train", values["valid"])
    mapping.finish()
    return SplitRule(**values)


def _rises(early: str, late: str) -> bool:
    """Whether one time comes before another, as numbers if both are and else as text."""
    if _is_number(early) and _is_number(late):
        return float(early) < float(late)
    return early < late


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _missing(markers: tuple[str, ...]) -> tuple[str, ...]:
    """An empty value is always missing: a client cannot leave a column out in any other way."""
    return tuple(dict.fromkeys(("", *markers)))


def _plain(value: Any) -> dict[str, Any]:
    return {key: _lists(item) for key, item in dataclasses.asdict(value).items()}


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def _override(column: Column) -> dict[str, Any]:
    keys = ("missing", "min_count", "discretize", "max_vocab", "hash_buckets")
    values = {key: value for key, value in _plain(column).items() if key in keys and value}
    if "discretize" in values:
        values["discretize"] = {k: v for k, v in values["discretize"].items() if v}
    return values
