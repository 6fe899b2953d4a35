import gzip

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fives_tf.errors import UserError
from fives_tf.schema import SPLITS, Schema
from fives_tf.splitting import Splitter
from pipelines import sample
from pipelines.preprocess import preprocess
from pipelines.sample import STRETCHES, Sample, Stretches, sample_schema, write_sample

ROWS = 4000
SPLIT_RULES = {
    "random": "{by: random, valid: 0.2, test: 0.3}",
    "position": "{by: position, valid: 0.2, test: 0.3}",
    "hash": "{by: hash, key: user, valid: 0.2, test: 0.3}",
    "time": "{by: time, column: number, valid_from: 2500, test_from: 3500}",
}


def schema_of(split: str, kind: str = "csv") -> Schema:
    return Schema.parse(
        f"format: {kind}\nlabel: {{column: click}}\nnumeric: [number]\ncategorical: [user]\n"
        f"split: {split}"
    )


@pytest.fixture(scope="module")
def table():
    number = np.arange(ROWS)
    return pa.table({"click": number % 2, "number": number, "user": [f"u{n % 97}" for n in number]})


@pytest.fixture
def write(table, tmp_path):
    """Writes the table in a format, and gives the path and the format's name in a schema."""

    def write(form):
        path = tmp_path / f"log.{form}"
        if form == "parquet":
            pq.write_table(table, path, row_group_size=150)
            return str(path), form
        lines = [",".join(map(str, row.values())) for row in table.to_pylist()]
        text = "\n".join(["click,number,user", *lines]).encode()
        path.write_bytes(gzip.compress(text) if form.endswith("gz") else text)
        return str(path), "csv"

    return write


@pytest.mark.parametrize(
    ("total", "rows"), [(1, 1), (7, 3), (100, 99), (100, 100), (100, 500), (9999, 100), (9999, 320)]
)
def test_stretches_are_spread_over_the_log(total, rows):
    stretches = Stretches(total, rows)
    held = stretches.hold(np.arange(total))
    assert min(rows, total) - STRETCHES < held.sum() <= min(rows, total)
    count = min(STRETCHES, rows, total)
    assert all(held[part * total // count] for part in range(count))
    for first in range(0, total, 10):
        assert stretches.meet(first, first + 10) == held[first : first + 10].any()


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("by", SPLIT_RULES)
def test_rows_have_the_split_that_they_have_in_the_whole_log(
    by, form, write, table, tmp_path, monkeypatch
):
    monkeypatch.setattr(sample, "_PIECE_BYTES", 1000)
    (path, kind), wanted = write(form), 900
    schema = schema_of(SPLIT_RULES[by], kind)
    taken = write_sample([path], schema, wanted, str(tmp_path / "sample"))
    number = np.arange(ROWS)
    keys = {
        name: pa.array(map(str, table[name].to_pylist())).cast(pa.binary()).dictionary_encode()
        for name in schema.split.columns()
    }
    splits = Splitter(schema.split, ROWS).assign(number, keys, "train")
    held = Stretches(ROWS, wanted).hold(number)
    for split, file in zip(sample.USED, taken.files, strict=True):
        found = pq.read_table(file)
        expected = number[held & (splits == SPLITS.index(split))]
        assert found["number"].to_pylist() == expected.tolist()
        assert found["click"].to_pylist() == (expected % 2).tolist()
        assert found["user"].to_pylist() == [b"u%d" % (n % 97) for n in expected]
        assert taken.rows[split] == len(expected)
        assert taken.clicks[split] == (expected % 2).sum()
    assert taken.read == held.sum()
    assert Sample.find(taken.directory) == taken


def test_only_what_holds_wanted_rows_is_read(write, tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "_PIECE_BYTES", 1000)
    read = []

    def watch(piece, *arguments):
        read.append(piece.index)
        return blocks(piece, *arguments)

    blocks = sample.read_blocks
    monkeypatch.setattr(sample, "read_blocks", watch)
    path, _ = write("csv")
    write_sample([path], schema_of(SPLIT_RULES["random"]), 320, str(tmp_path / "sample"))
    assert STRETCHES <= len(read) <= 2 * STRETCHES


def test_a_sample_of_all_rows_becomes_the_same_dataset(write, tmp_path):
    path, _ = write("csv")
    schema = schema_of(SPLIT_RULES["random"])
    whole = preprocess([path], schema, str(tmp_path / "whole"))
    taken = write_sample([path], schema, ROWS, str(tmp_path / "sample"))
    part = preprocess(taken.files, sample_schema(schema), str(tmp_path / "part"))
    assert list(part.splits) == ["train", "valid"]
    for name, split in part.splits.items():
        assert (split.rows, split.clicks) == (whole.split(name).rows, whole.split(name).clicks)
    assert part.encoding.size == whole.encoding.size


def test_test_files_give_no_row(write, tmp_path):
    path, _ = write("csv")
    other = tmp_path / "later.csv"
    other.write_text("click,number,user\n1,-5,u1\n")
    schema = schema_of("{by: files, files: {train: log.csv, test: later.csv}}")
    taken = write_sample([str(other), path], schema, 10_000, str(tmp_path / "sample"))
    assert taken.read == ROWS + 1
    assert sum(taken.rows.values()) == ROWS


def test_bad_rows_are_left_out_unless_they_are_most(tmp_path):
    path = tmp_path / "log.csv"
    schema = schema_of(SPLIT_RULES["random"])
    good = [f"{n % 2},{n},a" for n in range(100)]
    path.write_text("\n".join(["click,number,user", *good, "yes,1,a", "1,one,a"]))
    taken = write_sample([str(path)], schema, 1000, str(tmp_path / "sample"))
    assert (taken.read, taken.rejected) == (100, 2)
    path.write_text("\n".join(["click,number,user", *good[:3], *["yes,1,a"] * 9]))
    expected = r"(?s)9 of the 12 rows that were read are bad. The first:\n.*log.csv:5: label column"
    with pytest.raises(UserError, match=expected):
        write_sample([str(path)], schema, 1000, str(tmp_path / "other"))
    assert list((tmp_path / "other").iterdir()) == []
