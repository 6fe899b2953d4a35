"""Crosses as fields of a dataset and as columns of a log, by the command and on Beam's workers."""

import functools
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from fives_tf import storage
from fives_tf.config import SearchConfig
from fives_tf.cross_encoding import CROSS_ENCODING
from fives_tf.cross_fitting import counting_bytes, fit_crosses
from fives_tf.cross_values import cross_values
from fives_tf.crosses import Cross, to_json
from fives_tf.dataset import Dataset
from fives_tf.errors import UserError
from fives_tf.parsing import parse_text
from fives_tf.schema import Schema
from fives_tf.search import check_dataset
from pipelines import add_crosses as engine
from pipelines import rowwise, runner
from pipelines.add_crosses import Options, add_crosses
from pipelines.count_crosses import fit_on_dataset
from pipelines.cross_log import write_cross_log
from pipelines.preprocess import Options as PreprocessOptions
from pipelines.preprocess import preprocess

FITTED = ("train", "valid")


@pytest.fixture(scope="module")
def dataset(small_dataset) -> Dataset:
    return Dataset.open(str(small_dataset))


@pytest.fixture(scope="module")
def crosses(dataset) -> list[Cross]:
    names = [field.name for field in dataset.encoding.fields]
    return [
        Cross(("C1", "C2"), 0.9, 0.6, 0.01),
        Cross((names[0], "C3", "C4"), 0.5),
        Cross((names[1], "C1"), 0.4),
    ]


@pytest.fixture
def crosses_file(crosses, tmp_path) -> Path:
    path = tmp_path / "crosses.json"
    path.write_bytes(to_json(crosses))
    return path


def local(workers: int = 1):
    return runner.pipeline_options([], workers=workers)


def rows_of(dataset: Dataset, split: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a split, in their order."""
    parts = list(dataset.read(split, 512).as_numpy_iterator())
    return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


def fitted_slowly(dataset: Dataset, crosses: list[Cross], **rules):
    """The crosses fitted to all rows at once."""
    return fit_crosses(
        crosses, dataset.encoding, [rows_of(dataset, split)[0] for split in FITTED], **rules
    )


def log_text(small_log: Path) -> pa.Table:
    """The log as text, read without the product's help."""
    path = small_log / "log.csv"
    names = path.read_text().splitlines()[0].split(",")
    types = dict.fromkeys(names, pa.string())
    return pa_csv.read_csv(path, convert_options=pa_csv.ConvertOptions(column_types=types))


def clean_rows(small_log: Path):
    """The clean rows of the log."""
    schema = Schema.load(small_log / "schema.yaml")
    header, _, text = (small_log / "log.csv").read_bytes().partition(b"\n")
    return parse_text(text, tuple(header.decode().strip().split(",")), schema, 0, 2).batch


class TestDataset:
    @pytest.mark.parametrize("hash_buckets", [None, 20])
    def test_ids_of_crosses_stand_behind_those_of_the_fields(
        self, dataset, crosses, tmp_path, hash_buckets
    ):
        options = Options(hash_buckets=hash_buckets, beam=local(2))
        made = add_crosses(dataset, crosses, str(tmp_path / "made"), options)
        expected = fitted_slowly(dataset, crosses, hash_buckets=hash_buckets)
        assert made.crosses.to_files() == expected.to_files()
        assert any(field.is_hashed for field in made.crosses.fields) == (hash_buckets is not None)
        names = [cross.name for cross in crosses]
        assert made.manifest["fields"] == [*dataset.manifest["fields"], *names]
        assert made.schema == dataset.schema
        for name, split in dataset.splits.items():
            own = made.split(name)
            assert [s.file for s in own.shards] == [s.file for s in split.shards]
            assert [(s.rows, s.clicks) for s in own.shards] == [
                (s.rows, s.clicks) for s in split.shards
            ]
            ids, label = rows_of(dataset, name)
            both, same_label = rows_of(made, name)
            np.testing.assert_array_equal(same_label, label)
            np.testing.assert_array_equal(both[:, : ids.shape[1]], ids)
            np.testing.assert_array_equal(both[:, ids.shape[1] :], expected.encode(ids))
            np.testing.assert_array_equal(
                both[:, ids.shape[1] :], expected.module(tf.constant(ids))
            )

    def test_compressed_shards_stay_compressed(self, small_log, crosses, tmp_path):
        schema = Schema.load(small_log / "schema.yaml")
        log, plain = [str(small_log / "log.csv")], str(tmp_path / "plain")
        source = preprocess(log, schema, plain, PreprocessOptions(gzip=True, beam=local()))
        made = add_crosses(source, crosses, str(tmp_path / "made"), Options(beam=local()))
        assert all(shard.file.endswith(".gz") for shard in made.split("train").shards)
        ids, _ = rows_of(source, "test")
        expected = fitted_slowly(source, crosses).encode(ids)
        np.testing.assert_array_equal(rows_of(made, "test")[0][:, ids.shape[1] :], expected)

    def test_a_stopped_run_goes_on_and_ends_the_same(
        self, dataset, crosses, tmp_path, monkeypatch, files_of
    ):
        add_crosses(dataset, crosses, str(tmp_path / "whole"), Options(beam=local()))
        frame, written = engine.frame_examples, []

        def fail(ids, label):
            written.append(len(ids))
            if len(written) == 3:
                raise OSError("the disk is gone")
            return frame(ids, label)

        monkeypatch.setattr(engine, "frame_examples", fail)
        place = str(tmp_path / "made")
        with pytest.raises(Exception, match="the disk is gone"):
            add_crosses(dataset, crosses, place, Options(beam=local()))
        with pytest.raises(UserError, match="is unfinished"):
            Dataset.open(place)
        with pytest.raises(UserError, match="--resume"):
            add_crosses(dataset, crosses, place, Options(beam=local()))
        with pytest.raises(UserError, match="the crosses changed"):
            add_crosses(dataset, crosses[:2], place, Options(beam=local(), resume=True))
        monkeypatch.setattr(engine, "frame_examples", frame)
        monkeypatch.setattr(
            "pipelines.count_crosses.CountShards.process",
            lambda self, shard: pytest.fail("it was counted already"),
        )
        add_crosses(dataset, crosses, place, Options(beam=local(), resume=True))
        assert files_of(tmp_path / "made") == files_of(tmp_path / "whole")

    def test_a_run_that_was_killed_while_it_moved_its_files_goes_on(
        self, dataset, crosses, tmp_path, monkeypatch, files_of
    ):
        add_crosses(dataset, crosses, str(tmp_path / "whole"), Options(beam=local()))
        place, move, moved = tmp_path / "made", storage.move, []

        def fail(path, target):
            if Path(target).parent == place:
                moved.append(target)
                if len(moved) == 4:
                    raise KeyboardInterrupt
            move(path, target)

        monkeypatch.setattr(storage, "move", fail)
        with pytest.raises(KeyboardInterrupt):
            add_crosses(dataset, crosses, str(place), Options(beam=local()))
        monkeypatch.setattr(storage, "move", move)
        assert any((place / name).is_dir() for name in ("counts", "vocab", "cross_vocab"))
        add_crosses(dataset, crosses, str(place), Options(beam=local(), resume=True))
        assert files_of(place) == files_of(tmp_path / "whole")

    def test_what_is_there_is_kept_or_replaced(self, dataset, crosses, tmp_path):
        place = str(tmp_path / "made")
        add_crosses(dataset, crosses, place, Options(beam=local()))
        with pytest.raises(UserError, match="holds a complete dataset"):
            add_crosses(dataset, crosses[:1], place, Options(beam=local()))
        made = add_crosses(dataset, crosses[:1], place, Options(beam=local(), overwrite=True))
        assert len(made.crosses.fields) == 1
        assert len(list(Path(place, "cross_vocab").iterdir())) == 1
        plain = preprocess_again(dataset, place)
        assert plain.crosses is None
        assert not Path(place, CROSS_ENCODING).exists()

    def test_datasets_that_it_does_not_fit(self, dataset, crosses, tmp_path):
        made = add_crosses(dataset, crosses[:1], str(tmp_path / "made"), Options(beam=local()))
        with pytest.raises(UserError, match="has crosses already"):
            add_crosses(made, crosses, str(tmp_path / "twice"))
        with pytest.raises(UserError, match="is the dataset that is read"):
            add_crosses(dataset, crosses, dataset.directory, Options(overwrite=True))
        with pytest.raises(UserError, match="has crosses among its fields"):
            check_dataset(made, SearchConfig.make())

    def test_a_corrupt_shard_is_named(self, small_dataset, crosses, tmp_path):
        copy = shutil.copytree(small_dataset, tmp_path / "copy")
        shard = sorted((copy / "train").iterdir())[1]
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 0xFF
        shard.write_bytes(content)
        with pytest.raises(UserError, match=f"{shard.name}: has a corrupt record"):
            add_crosses(
                Dataset.open(str(copy)), crosses, str(tmp_path / "made"), Options(beam=local())
            )


def preprocess_again(dataset: Dataset, place: str) -> Dataset:
    log = [one["path"] for one in dataset.manifest["inputs"]]
    return preprocess(log, dataset.schema, place, PreprocessOptions(overwrite=True, beam=local()))


class TestLog:
    @pytest.mark.parametrize("beam", [False, True])
    @pytest.mark.parametrize("ending", ["parquet", "csv"])
    def test_texts(self, small_log, dataset, crosses, tmp_path, beam, ending):
        place = tmp_path / f"out.{ending}"
        options = rowwise.Options(piece_bytes=20_000, beam=local(2) if beam else None)
        log = [str(small_log / "log.csv")]
        tally = write_cross_log(log, str(place), dataset, crosses, options)
        assert (tally.rows, tally.bad) == (2500, 0)
        table = read_table(place)
        plain = log_text(small_log)
        assert table.column_names == [*plain.column_names, *(cross.name for cross in crosses)]
        for name in plain.column_names:
            assert table[name].to_pylist() == plain[name].to_pylist()
        expected = cross_values(clean_rows(small_log), crosses, dataset.encoding)
        for cross, values in zip(crosses, expected, strict=True):
            assert table[cross.name].to_pylist() == values.to_pylist()
        assert len(list(tmp_path.iterdir())) == 1

    @pytest.mark.parametrize("beam", [False, True])
    def test_ids(self, small_log, dataset, crosses, tmp_path, beam):
        options = rowwise.Options(piece_bytes=20_000, beam=local(2) if beam else None)
        log, place = [str(small_log / "log.csv")], tmp_path / "out.parquet"
        fit = functools.partial(
            fit_on_dataset, dataset, crosses, local(), str(tmp_path / "near"), min_count=3
        )
        write_cross_log(log, str(place), dataset, crosses, options, fit)
        assert [one.name for one in tmp_path.iterdir()] == ["out.parquet"]
        ids = dataset.encoding.encode(clean_rows(small_log))
        slow = fitted_slowly(dataset, crosses, min_count=3)
        expected = slow.encode(ids) - slow.offsets
        table = read_table(place)
        for cross, own in zip(crosses, expected.T, strict=True):
            assert table.schema.field(cross.name).type == pa.int32()
            np.testing.assert_array_equal(table[cross.name].to_numpy(), own)
            assert own.max() > 2

    def test_bad_rows_keep_their_place(self, small_log, dataset, crosses, tmp_path):
        header, *lines = (small_log / "log.csv").read_text().splitlines()
        column = header.split(",").index("I1")
        parts = lines[1].split(",")
        parts[column] = "many"
        log = tmp_path / "log.csv"
        log.write_text("\n".join([header, lines[0], ",".join(parts), lines[2]]) + "\n")
        place = str(tmp_path / "out.parquet")
        with pytest.raises(UserError, match="bad rows keep their place and get no crosses"):
            write_cross_log([str(log)], place, dataset, crosses)
        assert not Path(place).exists()
        options = rowwise.Options(max_bad_fraction=0.5)
        tally = write_cross_log([str(log)], place, dataset, crosses, options)
        assert (tally.rows, tally.bad) == (3, 1)
        table = read_table(Path(place))
        assert table["I1"].to_pylist()[1] == "many"
        for cross in crosses:
            values = table[cross.name].to_pylist()
            assert [value is None for value in values] == [False, True, False]

    def test_only_the_columns_of_the_crosses_are_needed(self, dataset, tmp_path):
        log = tmp_path / "log.csv"
        log.write_text("C2,other,C1\nb,1,a\nd,2,c x\n")
        place = tmp_path / "out.csv"
        write_cross_log([str(log)], str(place), dataset, [Cross(("C1", "C2"), 1.0)])
        lines = place.read_text().splitlines()
        assert lines == [
            '"C2","other","C1","C1 x C2"',
            '"b","1","a","a x b"',
            '"d","2","c x","c \\x x d"',
        ]

    def test_mistakes(self, small_log, dataset, crosses, tmp_path):
        log, place = [str(small_log / "log.csv")], str(tmp_path / "out.csv")
        with pytest.raises(UserError, match="needs the field `C9`"):
            write_cross_log(log, place, dataset, [Cross(("C1", "C9"), 1.0)])
        other = tmp_path / "other.csv"
        other.write_text("C1,C3\na,b\n")
        with pytest.raises(UserError, match="other.csv: has no column `C2`"):
            write_cross_log([str(other)], place, dataset, [Cross(("C1", "C2"), 1.0)])
        other.write_text("C1,C2,C1 x C2\na,b,c\n")
        with pytest.raises(UserError, match="has a column `C1 x C2` already"):
            write_cross_log([str(other)], place, dataset, [Cross(("C1", "C2"), 1.0)])
        with pytest.raises(UserError, match="expected a name that ends in"):
            write_cross_log(log, str(tmp_path / "out.txt"), dataset, crosses)
        with pytest.raises(UserError, match="the cross `C1 x C2` is listed twice"):
            write_cross_log(log, place, dataset, [Cross(("C1", "C2"), 1.0)] * 2)
        Path(place).write_text("mine")
        with pytest.raises(UserError, match=r"out.csv: exists"):
            write_cross_log(log, place, dataset, crosses)
        assert Path(place).read_text() == "mine"


def read_table(place: Path) -> pa.Table:
    """A written log, be it one file or a directory of parts."""
    if place.suffix == ".parquet":
        return pq.read_table(place)
    files = sorted(place.glob("part-*")) if place.is_dir() else [place]
    tables = []
    for file in files:
        names = pa_csv.read_csv(file).column_names
        types = dict.fromkeys(names, pa.string())
        tables.append(
            pa_csv.read_csv(file, convert_options=pa_csv.ConvertOptions(column_types=types))
        )
    return pa.concat_tables(tables)


class TestCommand:
    def test_from_a_file_of_crosses(self, cli, small_log, small_dataset, crosses_file, tmp_path):
        place = tmp_path / "made"
        flags = ["--dataset", small_dataset, "--out", place, "--top=2"]
        done = cli("materialize", crosses_file, *flags)
        assert done.returncode == 0, done.stderr
        assert "2 crosses among the fields" in done.stdout
        names = [field.cross.name for field in Dataset.open(str(place)).crosses.fields]
        assert (
            names == [item["name"] for item in json.loads(crosses_file.read_text())["crosses"]][:2]
        )
        described = cli("describe", place).stdout
        assert "C1 x C2\t\tcross\t" in described

        log = ["--input", small_log / "log.csv"]
        flags = ["--dataset", small_dataset, *log, "--out", tmp_path / "out.csv"]
        done = cli("materialize", crosses_file, *flags)
        assert done.stdout == f"wrote {tmp_path / 'out.csv'}: 2,500 rows, 3 crosses\n"

        again = tmp_path / "again"
        flags = ["--dataset", small_dataset, *log, "--out", again, "--top=1"]
        assert cli("materialize", crosses_file, *flags).returncode == 0
        assert [f.cross.name for f in Dataset.open(str(again)).crosses.fields] == ["C1 x C2"]
        assert not (tmp_path / "again.fields").exists()
        refused = cli("materialize", crosses_file, *flags)
        assert refused.returncode == 2
        assert f"{again}: holds a complete dataset" in refused.stderr
        assert "pass 1" not in refused.stderr
        assert cli("materialize", crosses_file, *flags, "--overwrite").returncode == 0

    def test_very_many_values(
        self, cli, dataset, small_dataset, crosses_file, tmp_path, monkeypatch
    ):
        monkeypatch.setattr("fives_tf.cross_fitting.MANY_VALUES", 50)
        flags = ["--dataset", small_dataset, "--out", tmp_path / "made", "--top=1"]
        done = cli("materialize", crosses_file, *flags)
        assert done.returncode == 0
        [line] = [line for line in done.stderr.splitlines() if line.startswith("warning")]
        assert "the cross `C1 x C2` can have" in line
        assert "of memory. --hash_buckets=1000000 would do without." in line
        done = cli("materialize", crosses_file, *flags, "--overwrite", "--hash_buckets=30")
        assert done.returncode == 0
        assert "warning" not in done.stderr
        assert Dataset.open(str(tmp_path / "made")).crosses.fields[0].size == 32

    def test_what_counting_costs(self, dataset):
        # Keys and counts have 8 bytes each, the ids of both fields 4; thrice while they are added.
        cross = Cross(("C1", "C2"), 1.0)
        assert counting_bytes(cross, dataset.encoding, 10) == 3 * 24 * 10
        assert counting_bytes(cross, dataset.encoding, 10**9) == 3 * 24 * (21 * 21 - 1)

    @pytest.mark.parametrize(
        ("flags", "words"),
        [
            (["--out", "x.csv"], "--input: name the log"),
            (["--out", "x.csv", "--input", "l", "--resume"], "--resume: is for a dataset"),
            (["--out", "x", "--values=ids"], "--values: is for a log"),
            (["--out", "x", "--top=0"], "--top: expected at least 1. Received: 0."),
            (["--out", "x", "--hash_buckets=0"], "--hash_buckets: expected at least 1"),
            (["--out", "x"], "--dataset: name the dataset"),
            (["--out", "x.tsv", "--input", "l"], "--out: x.tsv is no name of a log"),
        ],
    )
    def test_mistakes(self, cli, crosses_file, flags, words):
        done = cli("materialize", crosses_file, *flags)
        assert done.returncode == 2
        assert words in done.stderr

    def test_crosses_of_another_dataset(self, cli, small_dataset, tmp_path):
        path = tmp_path / "crosses.json"
        path.write_bytes(to_json([Cross(("city", "hour"), 1.0)]))
        done = cli("materialize", path, "--dataset", small_dataset, "--out", tmp_path / "made")
        assert done.returncode == 2
        assert f"{path}: the cross `city x hour` needs the field `city`" in done.stderr
        assert not (tmp_path / "made").exists()
        path.write_text("[]")
        done = cli("materialize", path, "--dataset", small_dataset, "--out", tmp_path / "made")
        assert done.returncode == 2
        assert "is no list of crosses, or damaged" in done.stderr
