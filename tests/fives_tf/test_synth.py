import argparse
import csv
import dataclasses
import gzip
import itertools
import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fives_tf.commands import synth as command
from fives_tf.errors import UserError
from fives_tf.schema import Schema
from fives_tf.synth import SynthConfig, generate
from fives_tf.synth_tables import (
    BLOCK,
    CategoricalField,
    LogitHistogram,
    NumericField,
    Plan,
    missing_rates,
    sigmoid,
)

SMALL = SynthConfig(rows=3000, seed=1)


@pytest.fixture(scope="module")
def plan():
    return Plan.make(SynthConfig(rows=BLOCK))


@pytest.fixture(scope="module")
def block(plan):
    """One block: the drawn values by field, the true probabilities and the drawn clicks."""
    drawn, logit, uniform = plan.draw(0)
    probability = sigmoid(logit + plan.bias(0.2))
    return drawn, probability, uniform < probability


def read_text(text, delimiter=",", **options):
    return list(csv.reader(text.splitlines(), delimiter=delimiter, **options))


def slow_auc(score, positive, negative):
    """AUC by comparing all pairs, positives and negatives weighted, ties half."""
    above = np.sign(score[:, None] - score[None, :]) / 2 + 0.5
    return positive @ above @ negative / (positive.sum() * negative.sum())


def test_the_same_seed_writes_the_same_bytes_and_another_does_not(tmp_path):
    for name, config in (("a", SMALL), ("b", SMALL), ("c", dataclasses.replace(SMALL, seed=2))):
        generate(config, tmp_path / name, compression="gz")
    files = ("log.csv.gz", "schema.yaml", "truth.json")
    a, b, c = ([(tmp_path / name / file).read_bytes() for file in files] for name in "abc")
    assert a == b
    assert a[0] != c[0]


def test_the_bytes_do_not_depend_on_the_hash_seed_of_the_process(tmp_path):
    program = (
        "import sys; from fives_tf.synth import *; generate(SynthConfig(rows=99), sys.argv[1])"
    )
    for seed in "12":
        environment = os.environ | {
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        subprocess.run(
            [sys.executable, "-c", program, tmp_path / seed], env=environment, check=True
        )
    assert (tmp_path / "1/log.csv").read_bytes() == (tmp_path / "2/log.csv").read_bytes()


def test_a_log_that_ends_within_a_block_continues_a_shorter_one(tmp_path):
    done = []
    config = dataclasses.replace(SMALL, rows=BLOCK + 7, fields=12, numeric=2)
    truth = generate(config, tmp_path / "long", progress=done.append)
    generate(dataclasses.replace(config, rows=BLOCK - 3), tmp_path / "short")
    long = (tmp_path / "long/log.csv").read_bytes()
    assert long.startswith((tmp_path / "short/log.csv").read_bytes())
    assert long.endswith(b"\n")
    rows = read_text(long.decode())
    assert len(rows) == BLOCK + 7 + 1
    assert {len(row) for row in rows} == {13}
    assert done == [BLOCK, BLOCK + 7]
    assert truth.click_rate == np.mean([row[0] == "1" for row in rows[1:]])
    assert len({tuple(row) for row in rows[1:]}) > BLOCK  # the second block is not the first again


@pytest.mark.parametrize("file_format", ["csv", "tsv", "parquet"])
def test_the_schema_describes_the_columns_of_the_log(tmp_path, file_format):
    truth = generate(dataclasses.replace(SMALL, rows=10, fields=39), tmp_path, file_format)
    schema = Schema.load(tmp_path / "schema.yaml")
    path = tmp_path / truth.log
    if file_format == "parquet":
        header = pq.read_schema(path).names
    else:
        header = path.read_text().splitlines()[0].split(schema.format.delimiter)
    schema.check_columns(tuple(header), truth.log)
    names = [f"I{i}" for i in range(1, 6)] + [f"C{i}" for i in range(1, 35)]
    assert header == ["click", *names]
    assert [column.name for column in schema.columns] == names
    assert (schema.format.kind, schema.label.column) == (file_format, "click")
    assert (schema.split.by, schema.split.valid, schema.split.test) == ("random", 0.1, 0.1)


def test_a_schema_without_numeric_fields_loads(tmp_path):
    generate(SynthConfig(rows=5, fields=9, numeric=0), tmp_path)
    assert len(Schema.load(tmp_path / "schema.yaml").columns) == 9


def test_all_formats_hold_the_same_values(tmp_path):
    compressions = (None, "gz", "zst")
    for kind, compression in itertools.product(("csv", "tsv", "parquet"), compressions):
        generate(SMALL, tmp_path / f"{kind}-{compression}", kind, compression)
    text = (tmp_path / "csv-None/log.csv").read_text()
    assert gzip.open(tmp_path / "csv-gz/log.csv.gz", "rt").read() == text
    with pa.input_stream(str(tmp_path / "csv-zst/log.csv.zst"), compression="zstd") as stream:
        assert stream.read().decode() == text
    expected = read_text(text)
    assert any('"' in value for value in itertools.chain(*expected))
    assert any("," in value for value in itertools.chain(*expected))
    assert not text.isascii()

    tsv = (tmp_path / "tsv-None/log.tsv").read_text()
    assert '"' not in tsv
    assert [[value.replace('"', "''") for value in row] for row in expected] == read_text(
        tsv, "\t", quoting=csv.QUOTE_NONE
    )
    for compression in compressions:
        table = pq.read_table(tmp_path / f"parquet-{compression}/log.parquet")
        columns = [column.cast(pa.string()).to_pylist() for column in table.columns]
        assert expected[1:] == [
            ["" if value is None else value for value in row] for row in zip(*columns, strict=True)
        ]


def test_planted_tables_have_no_marginal_of_lower_order(plan):
    weights = {f.name: f.probabilities for f in plan.fields if isinstance(f, CategoricalField)}
    assert sorted(len(cross.fields) for cross in plan.crosses) == [2, 2, 2, 3]
    for cross in plan.crosses:
        by_axis = [weights[name] for name in cross.fields]
        assert cross.table.shape == ((20, 20) if len(by_axis) == 2 else (6, 6, 6))
        for axis, weight in enumerate(by_axis):
            np.testing.assert_allclose(np.tensordot(cross.table, weight, (axis, 0)), 0, atol=1e-12)
        joint = by_axis[0]
        for weight in by_axis[1:]:
            joint = np.multiply.outer(joint, weight)
        assert np.sum(joint * cross.table**2) == pytest.approx(1)


def test_the_effects_have_the_asked_spread(plan, block):
    drawn, _, _ = block
    first_order = sum(field.effect(drawn[field.name]) for field in plan.fields)
    assert first_order.std() == pytest.approx(0.3, rel=0.05)
    active = [f for f in plan.fields if np.any(f.effect(drawn[f.name]))]
    assert {type(field) for field in active} == {CategoricalField, NumericField}
    for cross in plan.crosses:
        effect = cross.effect([drawn[name] for name in cross.fields])
        assert effect.std() == pytest.approx(1, rel=0.05)


def test_clicks_follow_the_planted_crosses_and_no_other(plan, block):
    drawn, probability, click = block
    planted = [cross.fields for cross in plan.crosses]
    for cross in plan.crosses:
        cells = np.ravel_multi_index([drawn[name] - 1 for name in cross.fields], cross.table.shape)
        count = np.bincount(cells, minlength=cross.table.size)
        assert count.min() > 0  # every combination occurs
        rate = np.bincount(cells, click, minlength=cross.table.size) / count
        assert np.corrcoef(rate, cross.table.ravel())[0, 1] > 0.85
    # fields of two different crosses have no cells that differ by more than chance
    one, other = planted[0][0], planted[1][0]
    cells = drawn[one] * 100 + drawn[other]
    means = np.bincount(cells, probability) / np.maximum(np.bincount(cells), 1)
    assert means[np.bincount(cells) > 100].std() < 0.04


def test_a_missing_value_has_no_effect():
    rng = np.random.default_rng(0)
    number = NumericField.make(rng, "I1", "count", 0.5, 1.0)
    values = number.draw(rng, 1000)
    assert 400 < np.isnan(values).sum() < 600
    assert not number.effect(values)[np.isnan(values)].any()
    category = CategoricalField.make(rng, "C1", ["a", "b"], 1.1, 0.5, 1.0)
    codes = category.draw(rng, 1000)
    assert 400 < np.sum(codes == 0) < 600
    assert category.column(codes).null_count == np.sum(codes == 0)
    assert not category.effect(codes)[codes == 0].any()


def test_bayes_auc_equals_the_slow_expectation_on_a_small_log(tmp_path):
    truth = generate(SMALL, tmp_path)
    plan = Plan.make(SMALL)
    logit = plan.draw(0)[1][: SMALL.rows] + plan.bias(SMALL.click_rate)
    expected = slow_auc(logit, sigmoid(logit), 1 - sigmoid(logit))
    assert truth.bayes_auc == pytest.approx(expected, abs=1e-5)


def test_bayes_auc_agrees_with_the_auc_of_the_drawn_clicks(plan, block):
    _, probability, click = block
    logit = np.log(probability / (1 - probability))
    histogram = LogitHistogram(logit.min(), logit.max())
    for half in np.split(np.arange(BLOCK), 2):
        histogram.add(logit[half], probability[half])
    rank = np.empty(BLOCK)
    rank[np.argsort(logit)] = np.arange(1, BLOCK + 1)
    clicks = click.sum()
    drawn_auc = (rank[click].sum() - clicks * (clicks + 1) / 2) / (clicks * (BLOCK - clicks))
    assert histogram.auc() == pytest.approx(drawn_auc, abs=0.006)  # four standard errors
    assert 0.8 < histogram.auc() < 0.95


def test_without_any_effect_no_model_beats_chance(tmp_path):
    config = dataclasses.replace(SMALL, plant=(), cross_effect=0, field_effect=0)
    assert generate(config, tmp_path).bayes_auc == pytest.approx(0.5)


@pytest.mark.parametrize("click_rate", [0.01, 0.2, 0.7])
def test_the_click_rate_is_close_to_the_wanted_one(tmp_path, click_rate):
    config = SynthConfig(rows=40_000, fields=10, numeric=1, click_rate=click_rate)
    truth = generate(config, tmp_path)
    assert truth.click_rate == pytest.approx(click_rate, abs=0.01, rel=0.2)


def test_unplanted_fields_have_a_long_tail_and_planted_fields_do_not(plan, block):
    drawn, _, _ = block
    planted = {name for cross in plan.crosses for name in cross.fields}
    sizes = []
    for field in plan.fields:
        if isinstance(field, NumericField):
            continue
        counts = np.bincount(drawn[field.name], minlength=len(field.pool))[1:]
        if field.name in planted:
            assert counts.max() < 3 * counts.min()
        else:
            sizes.append(len(counts))
            assert counts[0] > 5 * np.median(counts)
            assert counts[0] > counts.sum() / 10
    assert (min(sizes), max(sizes)) == (10, 1000)


def test_missing_rates_differ_by_field_and_meet_their_mean(plan, block):
    drawn, _, _ = block
    planted = {name for cross in plan.crosses for name in cross.fields}
    rates = {f.name: f.column(drawn[f.name]).null_count / BLOCK for f in plan.fields}
    assert all(rates[name] == 0 for name in planted)
    others = np.array([rate for name, rate in rates.items() if name not in planted])
    assert others.mean() == pytest.approx(0.05, rel=0.15)
    assert others.min() == 0
    assert others.max() > 0.2
    assert not missing_rates(np.random.default_rng(0), 5, 0).any()
    assert missing_rates(np.random.default_rng(0), 5, 0.9).mean() == pytest.approx(0.9)


def test_numeric_fields_are_heavy_tailed_and_some_are_negative_or_continuous(plan, block):
    drawn, _, _ = block
    columns = [f.column(drawn[f.name]) for f in plan.fields if isinstance(f, NumericField)]
    values = [column.drop_null().to_numpy() for column in columns]
    assert [column.type for column in columns].count(pa.float64()) == 1
    assert any(value.min() < 0 for value in values)
    assert all(np.abs(value).max() > 20 * max(np.median(np.abs(value)), 1) for value in values)


def test_truth_names_the_crosses(tmp_path):
    config = dataclasses.replace(SMALL, plant=("C7 x C3", "3", "C3 x C4"))
    generate(config, tmp_path)
    truth = json.loads((tmp_path / "truth.json").read_text())
    first, second, third = truth["crosses"]
    assert first == {"name": "C3 x C7", "fields": ["C3", "C7"], "order": 2}
    assert third["name"] == "C3 x C4"
    assert second["order"] == len(second["fields"]) == 3
    assert not set(second["fields"]) & {"C3", "C4", "C7"}
    assert second["name"] == " x ".join(second["fields"])
    assert (truth["rows"], truth["seed"], truth["log"]) == (3000, 1, "log.csv")
    assert SynthConfig(**truth["config"] | {"plant": tuple(truth["config"]["plant"])}) == config


def test_chosen_crosses_have_fields_of_their_own():
    for seed in range(20):
        config = SynthConfig(fields=14, numeric=5, seed=seed)
        fields = list(itertools.chain(*config.crosses()))
        assert sorted(fields, key=config.categorical_names().index) == config.categorical_names()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 0}, "`rows`: expected at least 1. Received: 0."),
        ({"fields": 0, "numeric": 0, "plant": ()}, "`fields`"),
        ({"numeric": -1}, "`numeric`"),
        ({"numeric": 21}, "`numeric`: expected at most 20"),
        ({"plant": ("C1 x C99",)}, "no field `C99`"),
        ({"plant": ("C1 x I2",)}, "`I2` is numeric"),
        ({"plant": ("C1 x C1",)}, "names a field twice"),
        ({"plant": ("C1",)}, "order of at least 2"),
        ({"plant": ("1",)}, "order of at least 2"),
        ({"plant": ("-2",)}, "order of at least 2"),
        ({"plant": ("",)}, "expected an order"),
        ({"plant": ("C1 x C2", "C2 x C1")}, "C1 x C2 is given twice"),
        ({"plant": ("2",) * 8}, "need 16 categorical fields, and there are 15"),
        ({"plant": ("2",) * 7, "numeric": 10}, "need 14 categorical fields"),
        ({"plant": ("8",)}, "`triple_values`: a cross of order 8"),
        ({"pair_values": 1}, "`pair_values`"),
        ({"pair_values": 2000}, "`pair_values`: a cross of order 2"),
        ({"triple_values": 1}, "`triple_values`"),
        ({"max_values": 1}, "`max_values`"),
        ({"missing": -0.1}, "`missing`"),
        ({"missing": 1.0}, "`missing`"),
        ({"click_rate": 0.0}, "`click_rate`"),
        ({"click_rate": float("nan")}, "`click_rate`"),
        ({"cross_effect": -1.0}, "`cross_effect`"),
        ({"field_effect": float("inf")}, "`field_effect`"),
        ({"seed": -1}, "`seed`"),
    ],
)
def test_a_bad_config_meets_an_error_that_names_it(change, message):
    with pytest.raises(UserError) as error:
        SynthConfig(**change)
    assert message in str(error.value)


@pytest.mark.parametrize(("file_format", "compression"), [("xls", None), ("csv", "bz2")])
def test_an_unknown_format_is_refused(tmp_path, file_format, compression):
    with pytest.raises(UserError, match="expected the format csv, tsv or parquet"):
        generate(SMALL, tmp_path / "log", file_format, compression)
    assert not (tmp_path / "log").exists()


def test_an_interrupted_log_leaves_nothing_behind(tmp_path):
    def interrupt(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(SMALL, tmp_path, progress=interrupt)
    assert not list(tmp_path.iterdir())


def test_a_directory_that_cannot_be_made_is_an_error_of_the_user(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        generate(SMALL, tmp_path / "file")


def run_command(*flags):
    parser = argparse.ArgumentParser()
    command.add_flags(parser)
    command.run(parser.parse_args(list(map(str, flags))))


def test_the_command_says_what_it_wrote(tmp_path, capsys):
    run_command("--rows", "1_000", "--plant", "C1 x C2, 3", "--out", tmp_path / "log")
    output = capsys.readouterr().out
    truth = json.loads((tmp_path / "log/truth.json").read_text())
    assert str(tmp_path / "log/log.csv") in output
    for part in ("1,000", "C1 x C2, ", f"{truth['bayes_auc']:.4f}", f"{truth['click_rate']:.4f}"):
        assert part in output


def test_the_command_replaces_a_log_only_when_told_to(tmp_path):
    run_command("--rows", 100, "--out", tmp_path)
    with pytest.raises(UserError, match=r"choose another directory .* --overwrite"):
        run_command("--rows", 100, "--out", tmp_path)
    run_command("--rows", 100, "--out", tmp_path, "--overwrite", "--format", "parquet")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["log.parquet", "schema.yaml", "truth.json"]


def test_the_flags_have_the_defaults_of_the_config():
    parser = argparse.ArgumentParser()
    command.add_flags(parser)
    flags = vars(parser.parse_args([])) | {"plant": ("2", "2", "2", "3")}
    config = dataclasses.asdict(SynthConfig())
    assert {key: flags[key] for key in config} == config
    assert "(default: 100000)" in parser.format_help()


def test_the_flags_are_shown_without_importing_pyarrow():
    program = "import sys, fives_tf.commands.synth; sys.exit('pyarrow' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_the_command_leaves_other_files_alone(tmp_path):
    (tmp_path / "schema.yaml").write_text("mine")
    for more in ([], ["--overwrite"]):
        with pytest.raises(UserError, match="is not empty, and holds no synthetic log"):
            run_command("--rows", 100, "--out", tmp_path, *more)
    assert (tmp_path / "schema.yaml").read_text() == "mine"
