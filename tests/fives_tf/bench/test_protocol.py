"""The splits of the benchmarks against the raw files; skipped where the data is absent."""

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest

from fives_tf.bench import protocol
from fives_tf.errors import UserError
from fives_tf.parsing import parse_text
from fives_tf.schema import Schema


@pytest.fixture(scope="module")
def work(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("protocol")


@pytest.fixture(scope="module")
def prepare(data_directory, work):
    return lambda name, seed, **more: protocol.prepare(name, seed, data_directory, work, **more)


def written(dataset, *splits):
    """The records of some splits in an order of their own: the ids with the label last."""
    batches = [
        np.column_stack(batch)
        for split in splits
        for batch in dataset.read(split, batch=8192).as_numpy_iterator()
    ]
    return ordered(np.concatenate(batches))


def encoded(dataset, lines):
    """The same, of lines of the raw log."""
    schema = dataset.schema
    names = schema.format.columns
    if schema.format.header:
        separator = schema.format.delimiter
        names = tuple(name.strip('"') for name in lines[0].decode().strip().split(separator))
        lines = lines[1:]
    rows = parse_text(b"".join(lines), names, schema, 0, 1)
    assert rows.rejects == ()
    return ordered(np.column_stack([dataset.encoding.encode(rows.batch), rows.label]))


def ordered(records):
    records = records.astype(np.int64)
    return records[np.lexsort(records.T)]


def raw_lines(path):
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


@pytest.mark.parametrize("name", ["employee", "bank", "credit"])
def test_drawn_test_rows_are_the_first_of_the_permutation(name, prepare, data_directory):
    dataset = prepare(name, 1)
    source = protocol.SOURCES[name]
    header, *lines = raw_lines(data_directory / source.files[0])
    order = np.random.default_rng(1).permutation(len(lines))
    test, rest = order[: source.test], order[source.test :]
    for splits, numbers in ((("test",), test), (("train", "valid"), rest)):
        expected = encoded(dataset, [header, *(lines[number] for number in numbers)])
        np.testing.assert_array_equal(written(dataset, *splits), expected)


def test_adult_keeps_its_official_test_file(prepare, data_directory):
    dataset = prepare("adult", 1)
    for splits, file in ((("test",), "adult.test.gz"), (("train", "valid"), "adult.data.gz")):
        expected = encoded(dataset, raw_lines(data_directory / "adult" / file))
        np.testing.assert_array_equal(written(dataset, *splits), expected)


def test_the_test_rows_of_criteo_are_the_last_fifth(prepare, data_directory):
    dataset = prepare("criteo", 1)
    lines = raw_lines(data_directory / protocol.SOURCES["criteo"].files[0])
    for splits, part in ((("test",), lines[-27_428:]), (("train", "valid"), lines[:-27_428])):
        np.testing.assert_array_equal(written(dataset, *splits), encoded(dataset, part))


@pytest.mark.parametrize(
    ("name", "rows"),
    {"employee": 3278, "bank": 13729, "adult": 16281, "credit": 50000, "criteo": 27428}.items(),
)
def test_counts_are_those_of_the_protocol(name, rows, prepare):
    dataset = prepare(name, 1)
    assert dataset.split("test").rows == len(protocol.held_out_rows(name, 1)) == rows
    valid, train = dataset.split("valid").rows, dataset.split("train").rows
    # Five standard deviations of a tenth that is drawn by chance.
    assert valid / (valid + train) == pytest.approx(0.1, abs=5 * np.sqrt(0.09 / (valid + train)))


def test_the_seed_varies_the_validation_part_of_a_fixed_test(prepare):
    one, other = prepare("adult", 1), prepare("adult", 2)
    assert not np.array_equal(written(one, "valid"), written(other, "valid"))
    np.testing.assert_array_equal(written(one, "test"), written(other, "test"))


def test_a_complete_dataset_is_reused_and_another_schema_refused(prepare, work):
    manifest = Path(prepare("employee", 1).directory) / "dataset.json"
    before = manifest.stat().st_mtime_ns
    schema = Schema.load(protocol.SCHEMAS / "employee.yaml")
    assert prepare("employee", 1, schema=schema).split("test").rows == 3278
    assert manifest.stat().st_mtime_ns == before
    columns = tuple(dataclasses.replace(column, min_count=5) for column in schema.columns)
    with pytest.raises(UserError, match="another schema"):
        prepare("employee", 1, schema=dataclasses.replace(schema, columns=columns))


def test_another_schema_keeps_the_split_of_the_protocol(data_directory, tmp_path):
    schema = Schema.load(protocol.SCHEMAS / "employee.yaml")
    columns = tuple(dataclasses.replace(column, min_count=5) for column in schema.columns)
    schema = dataclasses.replace(schema, columns=columns)
    dataset = protocol.prepare("employee", 3, data_directory, tmp_path, schema)
    assert dataset.schema.columns == columns
    assert dataset.schema.split == protocol.split_rule("employee", 3)


def test_an_unfinished_dataset_is_made_anew(data_directory, tmp_path):
    work = tmp_path / "employee-0" / "work"
    work.mkdir(parents=True)
    (work / "fives.lock").touch()
    (work / "plan.json").write_text('{"fingerprint": {}}')
    assert protocol.prepare("employee", 0, data_directory, tmp_path).split("test").rows == 3278


def test_a_file_of_other_data_is_refused(tmp_path):
    (tmp_path / "employee").mkdir()
    (tmp_path / "employee" / "train.csv.gz").write_bytes(gzip.compress(b"ACTION\n1\n"))
    with pytest.raises(UserError, match="has 1 rows, expected 32,769"):
        protocol.prepare("employee", 0, tmp_path, tmp_path / "work")


def test_the_command_line_prints_a_table(data_directory, work, capsys):
    flags = ["--data", data_directory, "--work", work, "--datasets", "employee", "--seeds", "1,2"]
    datasets = protocol.run([str(flag) for flag in flags])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("data set\tseed\ttrain rows\ttrain clicks\tvalid rows")
    clicks = datasets[0].split("test").clicks
    assert lines[1].split("\t")[:2] == ["employee", "1"]
    assert lines[1].split("\t")[-2:] == ["3,278", f"{clicks:,}"]
    assert lines[2].split("\t")[:2] == ["employee", "2"]


def test_unknown_names_are_refused(tmp_path, capsys):
    with pytest.raises(UserError, match="did you mean `criteo`"):
        protocol.prepare("crito", 0, tmp_path, tmp_path)
    for flags in (["--datasets", "crito"], ["--seeds", "a"]):
        with pytest.raises(SystemExit):
            protocol.run(["--work", str(tmp_path), *flags])
    assert "Known: employee, bank" in capsys.readouterr().err
