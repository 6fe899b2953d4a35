"""Writes a synthetic click log whose crosses are known, to try the search on."""

import dataclasses
import itertools
import json
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fives_tf.errors import UserError, nearest
from fives_tf.synth_tables import BLOCK, LogitHistogram, Plan, sigmoid

COMPRESSIONS = {"gz": "gzip", "zst": "zstd"}
_DELIMITERS = {"csv": ",", "tsv": "\t"}
_LOG_NAMES = (
    *(f"log.{kind}{end}" for kind in _DELIMITERS for end in ("", ".gz", ".zst")),
    "log.parquet",
)
_MAX_CELLS = 1_000_000


@dataclass(frozen=True)
class SynthConfig:
    """The shape of a synthetic log.

    Attributes:
        rows: number of rows.
        fields: number of fields, numeric and categorical together.
        numeric: number of numeric fields, named `I1`, `I2`, ...; the others are `C1`, `C2`, ...
        plant: the crosses to plant. An order such as "2" leaves the choice of the fields to the
            generator, which gives each cross fields of its own; "C1 x C2" names the fields.
        pair_values: number of values of the fields in planted pairs.
        triple_values: number of values of the fields in planted crosses of order 3 and above.
        max_values: size of the largest vocabulary of the fields in no planted cross.
        missing: mean missing rate of the fields in no planted cross; planted fields miss nothing.
        click_rate: part of the rows with a click.
        cross_effect: standard deviation of the contribution of each planted cross to the logit.
        field_effect: standard deviation of the contribution of all single fields together.
        seed: decides everything that is drawn.
    """

    rows: int = 100_000
    fields: int = 20
    numeric: int = 5
    plant: tuple[str, ...] = ("2", "2", "2", "3")
    pair_values: int = 20
    triple_values: int = 6
    max_values: int = 1000
    missing: float = 0.05
    click_rate: float = 0.2
    cross_effect: float = 1.0
    field_effect: float = 0.3
    seed: int = 0

    def __post_init__(self):
        for name, least in (
            ("rows", 1),
            ("fields", 1),
            ("numeric", 0),
            ("pair_values", 2),
            ("triple_values", 2),
            ("max_values", 2),
            ("seed", 0),
        ):
            self._check(name, getattr(self, name) >= least, f"at least {least}")
        self._check("numeric", self.numeric <= self.fields, f"at most {self.fields}, all fields")
        self._check("missing", 0 <= self.missing <= 0.9, "a number from 0 to 0.9")
        self._check("click_rate", 0.001 <= self.click_rate <= 0.999, "from 0.001 to 0.999")
        for name in ("cross_effect", "field_effect"):
            self._check(name, 0 <= getattr(self, name) < math.inf, "a number from 0")
        for cross in self.crosses():
            name = "pair_values" if len(cross) == 2 else "triple_values"
            if getattr(self, name) ** len(cross) > _MAX_CELLS:
                raise UserError(
                    f"`{name}`: a cross of order {len(cross)} would have more than {_MAX_CELLS:,} "
                    f"combinations; lower it. Received: {getattr(self, name)}."
                )

    def numeric_names(self) -> list[str]:
        """The names of the numeric fields."""
        return [f"I{number}" for number in range(1, self.numeric + 1)]

    def categorical_names(self) -> list[str]:
        """The names of the categorical fields."""
        return [f"C{number}" for number in range(1, self.fields - self.numeric + 1)]

    def crosses(self) -> tuple[tuple[str, ...], ...]:
        """The fields of each cross to plant, in the order of `plant`."""
        names = self.categorical_names()
        parsed = [self._parse_cross(entry) for entry in self.plant]
        named = {name for fields in parsed if not isinstance(fields, int) for name in fields}
        free = [name for name in names if name not in named]
        wanted = sum(fields for fields in parsed if isinstance(fields, int))
        if wanted > len(free):
            raise UserError(
                f"`plant`: the crosses need {wanted + len(named)} categorical fields, and there "
                f"are {len(names)}; raise `fields`, or lower `numeric` or the number of crosses. "
                f"Received: {', '.join(self.plant)}."
            )
        free = np.random.default_rng([self.seed, 0, 1]).permutation(free).tolist()
        crosses: list[tuple[str, ...]] = []
        for fields in parsed:
            chosen = [free.pop() for _ in range(fields)] if isinstance(fields, int) else fields
            cross = tuple(sorted(chosen, key=names.index))
            if cross in crosses:
                raise UserError(f"`plant`: the cross {' x '.join(cross)} is given twice.")
            crosses.append(cross)
        return tuple(crosses)

    def _parse_cross(self, entry: str) -> int | tuple[str, ...]:
        """The order, or the names of the fields."""
        names = tuple(re.split(r"\s+x\s+", entry.strip()))
        if re.fullmatch(r"[+-]?\d+", entry.strip()):
            fields: int | tuple[str, ...] = int(entry)
        else:
            fields = names
            known = self.categorical_names()
            for name in names:
                if name in self.numeric_names():
                    raise UserError(
                        f"`plant`: `{name}` is numeric, and crosses are planted among categorical "
                        f"fields (C1 to C{len(known)}). Received: {entry}."
                    )
                if name not in known:
                    raise UserError(
                        f"`plant`: expected an order such as 2, or fields such as C1 x C2; there "
                        f"is no field `{name}`{nearest(name, known)} Received: {entry}."
                    )
            if len(set(names)) < len(names):
                raise UserError(f"`plant`: a cross names a field twice. Received: {entry}.")
        if (fields if isinstance(fields, int) else len(fields)) < 2:
            raise UserError(f"`plant`: a cross has an order of at least 2. Received: {entry}.")
        return fields

    def _check(self, name: str, valid: bool, expected: str) -> None:
        if not valid:
            raise UserError(f"`{name}`: expected {expected}. Received: {getattr(self, name)}.")


@dataclass(frozen=True)
class Truth:
    """What is true of a synthetic log and a search should find.

    Attributes:
        log: name of the log file.
        crosses: the fields of each planted cross.
        bayes_auc: the AUC of the true click probabilities; no model can do better on average.
        click_rate: part of the rows that have a click.
        rows: number of rows.
        config: what the log was made from.
    """

    log: str
    crosses: tuple[tuple[str, ...], ...]
    bayes_auc: float
    click_rate: float
    rows: int
    config: SynthConfig

    def to_json(self) -> str:
        """The text of `truth.json`."""
        document = dataclasses.asdict(self) | {"seed": self.config.seed}
        document["crosses"] = [
            {"name": " x ".join(fields), "fields": fields, "order": len(fields)}
            for fields in self.crosses
        ]
        return json.dumps(document, indent=2) + "\n"


def generate(
    config: SynthConfig,
    directory: str | Path,
    file_format: str = "csv",
    compression: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Truth:
    """Writes a log with planted crosses, its schema and the truth about it.

    The files appear when all of them are complete, `truth.json` last. Files of an earlier log in
    the same directory are replaced.

    Args:
        config: the shape of the log.
        directory: gets the log (such as `log.csv`), `schema.yaml` and `truth.json`.
        file_format: "csv", "tsv" or "parquet".
        compression: "gz" or "zst". A text file gets the ending; Parquet compresses its pages.
        progress: called with the number of rows done after each block.
    """
    name = f"log.{file_format}"
    if compression and file_format in _DELIMITERS:
        name += f".{compression}"
    if name not in _LOG_NAMES or compression not in (None, *COMPRESSIONS):
        raise UserError(
            "expected the format csv, tsv or parquet and the compression gz, zst or none. "
            f"Received: {file_format}, {compression}."
        )
    finals = [Path(directory) / file for file in (name, "schema.yaml", "truth.json")]
    partials = [path.with_name(f".{path.name}.partial") for path in finals]
    try:
        Path(directory).mkdir(parents=True, exist_ok=True)
        try:
            clicks, auc = _write_log(config, partials[0], file_format, compression, progress)
            truth = Truth(name, config.crosses(), auc, clicks / config.rows, config.rows, config)
            partials[1].write_text(_schema_text(config, name, file_format), encoding="utf-8")
            partials[2].write_text(truth.to_json(), encoding="utf-8")
            if finals[2].exists():  # an old truth or log must not stand beside the new one
                for file in ("truth.json", *_LOG_NAMES):
                    finals[2].with_name(file).unlink(missing_ok=True)
            for partial, final in zip(partials, finals, strict=True):
                os.replace(partial, final)
        finally:
            for partial in partials:
                partial.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{directory}: cannot be written ({reason}); choose another.") from None
    return truth


def _write_log(
    config: SynthConfig,
    path: Path,
    file_format: str,
    compression: str | None,
    progress: Callable[[int], None] | None,
) -> tuple[int, float]:
    """Writes the rows block by block; returns the number of clicks and the Bayes AUC."""
    plan = Plan.make(config, _SPELL[file_format])
    bias = plan.bias(config.click_rate)
    histogram = LogitHistogram(*plan.bounds())
    clicks = 0

    def tables() -> Iterator[pa.Table]:
        nonlocal clicks
        for block, done in enumerate(range(0, config.rows, BLOCK)):
            rows = min(BLOCK, config.rows - done)
            drawn, logit, uniform = plan.draw(block)
            probability = sigmoid(logit[:rows] + bias)
            click = (uniform[:rows] < probability).astype(np.int8)
            histogram.add(logit[:rows], probability)
            clicks += int(click.sum())
            columns = {field.name: field.column(drawn[field.name][:rows]) for field in plan.fields}
            yield pa.table({"click": pa.array(click)} | columns)
            if progress is not None:
                progress(done + rows)

    if file_format == "parquet":
        _write_parquet(path, tables(), COMPRESSIONS.get(compression, "none"))
    else:
        _write_text(path, tables(), COMPRESSIONS.get(compression), _DELIMITERS[file_format])
    return clicks, histogram.auc()


def _write_parquet(path: Path, tables: Iterator[pa.Table], codec: str) -> None:
    first = next(tables)
    with pq.ParquetWriter(path, first.schema, compression=codec) as writer:
        for table in itertools.chain([first], tables):
            writer.write_table(table)


def _write_text(path: Path, tables: Iterator[pa.Table], codec: str | None, delimiter: str) -> None:
    with pa.output_stream(str(path), compression=codec) as stream:
        for block, table in enumerate(tables):
            if block == 0:
                stream.write(f"{delimiter.join(table.column_names)}\n".encode())
            stream.write(_lines(table, delimiter))


def _lines(table: pa.Table, delimiter: str) -> pa.Buffer:
    """The text of the rows.

    Values are spelled for the format already, so joining them is enough. pyarrow.csv would put
    every string in quotes, which no real log does.
    """
    columns = [column.combine_chunks().cast(pa.string()) for column in table.columns]
    lines = pc.binary_join_element_wise(
        *columns, delimiter, null_handling="replace", null_replacement=""
    )
    # The last, empty line gives the end of the file its line feed.
    lines = pa.concat_arrays([lines, pa.array([""])])
    return pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "\n")[0].as_buffer()


def _spell_csv(value: str) -> str:
    if not re.search(r'[",\r\n]', value):
        return value
    return '"' + value.replace('"', '""') + '"'


def _spell_tsv(value: str) -> str:
    # Readers of TSV disagree on whether a quote quotes; an inch can be written without one.
    return value.replace('"', "''")


_SPELL = {"csv": _spell_csv, "tsv": _spell_tsv, "parquet": str}


def _schema_text(config: SynthConfig, name: str, file_format: str) -> str:
    def listed(names: list[str]) -> str:
        wrapped = textwrap.wrap(", ".join(names), width=84)
        return "[" + "\n  ".join(wrapped) + "]"

    return f"""\
# The schema of {name}, a synthetic log with planted crosses; truth.json names them.
version: 1
format: {file_format}

# The column to predict, and which of its values are a click.
label:
  column: click
  positive: "1"
  negative: "0"

# Empty means missing. Values that occur less than min_count times count as rare.
missing: ""
min_count: 5

# Numbers: cut into buckets, one field for each granularity.
numeric: {listed(config.numeric_names())}
discretize:
  kind: quantile
  buckets: [10, 100]

# Names and codes: one field each.
categorical: {listed(config.categorical_names())}

# The network learns on the rest, the adjacency tensor on the validation part.
split:
  by: random
  valid: 0.1
  test: 0.1
  seed: 0
"""
