"""The estimators: on tables of all kinds they find crosses, which are what they are said to be."""

import collections
import datetime
import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import tensorflow as tf
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from fives_tf.sklearn import FivesClassifier, FivesCrosses

LITTLE = {"dim": 2, "batch": 32, "lr_epochs": 2, "search_epochs": 2, "after": "nothing"}
QUICK = {"order": 2, "bins": 5, "random_state": 0, "settings": LITTLE}


def click_log(rows: int = 400, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """City and hour decide together, and neither alone."""
    random = np.random.default_rng(seed)
    city, hour, noise = random.integers(0, 4, (3, rows))
    frame = pd.DataFrame(
        {
            "city": pd.Series([None if c == 3 else f"c{c}" for c in city]),
            "hour": pd.Categorical([f"h{h}" for h in hour]),
            "noise": pd.Series([f"n{n}" for n in noise]),
            "price": np.where(random.random(rows) < 0.1, np.nan, random.random(rows)),
        }
    )
    return frame, ((city + hour) % 2 ^ (random.random(rows) < 0.05)).astype(int)


@pytest.fixture(scope="module")
def log():
    return click_log()


@pytest.fixture(scope="module")
def fitted(log):
    return FivesCrosses(3, **QUICK).fit(*log)


@pytest.fixture(scope="module")
def model(log):
    frame, clicks = log
    return FivesClassifier(**QUICK).fit(frame, np.where(clicks, "yes", "no"))


def test_the_planted_cross_comes_first(fitted):
    assert fitted.crosses_[0].fields == ("city", "hour")
    gains = [cross.gain for cross in fitted.crosses_]
    assert gains == sorted(gains, reverse=True)
    assert len(gains) == 3
    assert set(fitted.fields_) == {"city", "hour", "noise", "price@5"}
    assert fitted.adjacency_.shape == (1, 4, 4)


def test_ids_are_those_of_a_count_of_combinations(fitted, log):
    frame, _ = log
    pairs = [
        (c if isinstance(c, str) else "", h) for c, h in zip(frame.city, frame.hour, strict=True)
    ]
    counts = collections.Counter(pairs)
    ids = fitted.transform(frame)["city x hour"]
    by_pair = dict(zip(pairs, ids, strict=True))
    assert len(set(by_pair.values())) == len(counts)  # every pair is frequent
    assert sorted(by_pair.values()) == list(range(2, 2 + len(counts)))
    ranked = sorted(by_pair, key=by_pair.get)
    assert [counts[pair] for pair in ranked] == sorted(counts.values(), reverse=True)
    for pair, own in zip(pairs, ids, strict=True):
        assert by_pair[pair] == own


def test_what_is_missing_or_new_has_its_own_ids(fitted):
    frame = pd.DataFrame(
        {
            "city": [None, "c1", "elsewhere", "c1"],
            "hour": [None, "h1", "h1", "h9"],
            "noise": ["n1"] * 4,
            "price": [0.5] * 4,
        }
    )
    ids = fitted.transform(frame)["city x hour"].tolist()
    assert ids[0] == 0
    assert ids[1] >= 2
    assert ids[2:] == [1, 1]


def test_text_says_which_values_a_cross_has(log):
    frame, clicks = log
    text = FivesCrosses(1, values="text", **QUICK).fit(frame, clicks).transform(frame)
    cities = frame.city.where(frame.city.notna(), "")
    expected = [f"{c} x {h}" for c, h in zip(cities, frame.hour, strict=True)]
    assert text["city x hour"].tolist() == expected


def containers(frame: pd.DataFrame) -> dict:
    arrow = pa.Table.from_pandas(frame)
    polars = pl.from_arrow(arrow).with_columns(pl.col("hour").cast(pl.Categorical))
    return {
        "polars": polars,
        "pyarrow": arrow,
        "numpy": frame.astype(object).to_numpy(),
    }


@pytest.mark.parametrize("kind", ["polars", "pyarrow", "numpy"])
def test_a_table_of_any_kind_gives_the_same_crosses(kind, log, fitted):
    frame, clicks = log
    table = containers(frame)[kind]
    own = FivesCrosses(3, **QUICK).fit(table, clicks)
    result = own.transform(table)
    assert type(result) is type(table)
    assert result.shape == (len(frame), 7)
    expected = fitted.transform(frame).iloc[:, 4:].to_numpy()
    if kind == "numpy":
        np.testing.assert_array_equal(result[:, 4:].astype(int), expected)
        assert own.get_feature_names_out()[:5].tolist() == ["x0", "x1", "x2", "x3", "x0 x x1"]
    else:
        columns = [np.asarray(result[cross.name]) for cross in fitted.crosses_]
        np.testing.assert_array_equal(np.column_stack(columns), expected)
        assert own.feature_names_in_.tolist() == list(frame)


def test_a_frame_keeps_its_index_and_columns(fitted, log):
    frame = log[0].iloc[50:60]
    result = fitted.transform(frame)
    assert result.index.equals(frame.index)
    assert list(result) == fitted.get_feature_names_out().tolist()
    pd.testing.assert_frame_equal(result[list(frame)], frame)


def test_the_output_can_be_set(log):
    frame, clicks = log
    crosses = FivesCrosses(1, **QUICK).set_output(transform="polars").fit(frame, clicks)
    assert isinstance(crosses.transform(frame), pl.DataFrame)


def test_none_nan_and_na_are_all_missing(fitted, log):
    frame = log[0].head(3).astype(object)
    results = []
    for missing in (None, np.nan, pd.NA, pd.NaT):
        own = frame.copy()
        own.loc[0, "city"] = missing
        results.append(fitted.transform(own)["city x hour"].tolist())
    assert results == [results[0]] * 4


def test_numbers_can_be_categories(log):
    frame, clicks = log
    codes = np.column_stack([frame.city.map({"c0": 7, "c1": 8, "c2": 9}), frame.hour.cat.codes])
    own = FivesCrosses(1, categorical_features=[0, 1], **QUICK).fit(codes, clicks)
    assert own.fields_.tolist() == ["x0", "x1"]
    ids = own.transform(codes)[:, 2]
    whole = own.transform(np.nan_to_num(codes, nan=-1).astype(int))[:, 2]
    known = ~np.isnan(codes[:, 0])
    np.testing.assert_array_equal(ids[known], whole[known])  # 7 and 7.0 are one category


def test_auto_takes_the_crosses_that_help(log):
    settings = LITTLE | {"lr_epochs": 12}
    own = FivesCrosses(**QUICK | {"settings": settings}).fit(*log)
    assert "city x hour" in [cross.name for cross in own.crosses_]


def test_the_same_seed_gives_the_same_result(fitted, log):
    np.random.seed(5)  # noqa: NPY002
    tf.random.set_seed(5)
    again = clone(fitted).fit(*log)
    np.testing.assert_array_equal(again.adjacency_, fitted.adjacency_)
    assert again.crosses_ == fitted.crosses_
    other = clone(fitted).set_params(random_state=1).fit(*log)
    assert not np.array_equal(other.adjacency_, fitted.adjacency_)


def test_a_classifier_has_any_two_labels(model, log):
    frame, _ = log
    assert model.classes_.tolist() == ["no", "yes"]
    probability = model.predict_proba(frame)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    expected = np.where(probability[:, 1] > 0.5, "yes", "no")
    np.testing.assert_array_equal(model.predict(frame), expected)
    assert model.adjacency_.shape == (1, 4, 4)
    assert model.fields_.tolist() == ["price@5", "city", "hour", "noise"]
    assert {cross.order for cross in model.crosses_} == {2}


def test_a_classifier_learns_what_a_cross_says():
    frame, clicks = click_log(1500)
    own = FivesClassifier(order=2, bins=5, random_state=0).fit(frame, clicks)  # traced, all stages
    fresh, truth = click_log(500, seed=1)
    assert own.score(fresh, truth) > 0.85


@pytest.mark.parametrize("which", ["fitted", "model"])
def test_a_fitted_estimator_can_be_kept(which, request, log, tmp_path):
    frame, _ = log
    own = request.getfixturevalue(which)
    method = "transform" if which == "fitted" else "predict_proba"
    before = pd.DataFrame(getattr(own, method)(frame))
    joblib.dump(own, tmp_path / "estimator.joblib")
    after = pd.DataFrame(getattr(joblib.load(tmp_path / "estimator.joblib"), method)(frame))
    pd.testing.assert_frame_equal(after, before, check_exact=True)


def test_a_row_has_its_probability_in_any_company(model, log):
    frame, _ = log
    whole = model.predict_proba(frame)
    alone = np.concatenate([model.predict_proba(frame.iloc[[row]]) for row in range(3)])
    np.testing.assert_array_equal(alone, whole[:3])


def test_a_grid_search_over_a_pipeline(log):
    frame, clicks = log[0].head(200), log[1][:200]
    own = make_pipeline(
        FivesCrosses(1, **QUICK),
        OneHotEncoder(handle_unknown="ignore"),
        LogisticRegression(),
    )
    grid = GridSearchCV(own, {"fivescrosses__n_crosses": [1, 2]}, cv=2, error_score="raise")
    grid.fit(frame.drop(columns="price"), clicks)
    assert grid.best_score_ > 0.8  # each of the columns alone says nothing


def test_nothing_is_said_unless_asked_for(log, capsys):
    frame, clicks = log
    own = FivesCrosses(1, **QUICK).fit(frame, clicks)
    assert capsys.readouterr() == ("", "")
    own.set_params(verbose=True).fit(frame, clicks)
    assert "search: 100%" in capsys.readouterr().err


def test_the_switch_of_tensorflow_is_put_back(log):
    frame, clicks = log
    with pytest.raises(ValueError, match="`order`"):
        FivesCrosses(1, order="high").fit(frame, clicks)
    FivesCrosses(1, **QUICK).fit(frame, clicks)
    assert not tf.config.functions_run_eagerly()


def test_nothing_can_be_asked_of_what_is_not_fitted(log):
    with pytest.raises(NotFittedError):
        FivesCrosses().transform(log[0])
    with pytest.raises(NotFittedError):
        FivesClassifier().predict(log[0])


def late(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(day=[datetime.datetime(2020, 1, 1)] * len(frame))


@pytest.mark.parametrize(
    ("parameters", "change", "target", "message"),
    [
        ({}, None, "one", "one class"),
        ({}, None, "three", "Only binary classification is supported"),
        ({}, None, "rare", "y has 1 row of the class 1"),
        ({"n_crosses": 0}, None, "y", "`n_crosses`: expected a whole number from 1"),
        ({"values": "names"}, None, "y", "`values`: expected one of ids, text"),
        ({"validation_fraction": 1.5}, None, "y", "`validation_fraction`"),
        ({"bins": 1}, None, "y", "buckets"),
        ({"binning": "even"}, None, "y", "kind"),
        ({"settings": {"dims": 2}}, None, "y", "there is no `dims`; did you mean `dim`?"),
        ({"settings": {"seed": 2}}, None, "y", "`seed` is set by the parameter `random_state`"),
        ({"categorical_features": ["citi"]}, None, "y", "did you mean `city`?"),
        ({"categorical_features": [9]}, None, "y", "places from 0 to 3"),
        ({"categorical_features": ["city"]}, None, "y", "column `hour` has the type"),
        ({"categorical_features": [True]}, None, "y", "one flag for each of the 4"),
        ({"categorical_features": "all"}, None, "y", "'from_dtype'"),
        ({}, late, "y", "column `day` has the type timestamp"),
        ({}, lambda frame: frame[["city"]], "y", "1 feature"),
    ],
)
def test_bad_input_meets_a_clear_error(parameters, change, target, message, log):
    frame, clicks = log
    frame = change(frame) if change else frame
    targets = {
        "y": clicks,
        "one": np.ones(len(frame)),
        "three": np.arange(len(frame)) % 3,
        "rare": (np.arange(len(frame)) == 0).astype(int),
    }
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        FivesCrosses(**parameters).fit(frame, targets[target])


def test_a_number_that_is_none_is_named_with_its_row(fitted, log):
    frame = log[0].head(3).assign(price=["1", "2", "cheap"])
    with pytest.raises(ValueError, match="row 2: column `price` is 'cheap', expected a number"):
        fitted.transform(frame)


def test_columns_must_be_those_of_the_fit(fitted, log):
    frame, _ = log
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.transform(frame.rename(columns={"city": "town"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        fitted.transform(frame.astype(object).to_numpy())


def test_no_warning_comes_from_a_fit(log):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FivesCrosses(1, **QUICK).fit(*log)


def test_a_category_has_the_same_id_in_any_company(log):
    frame, target = log
    mixed = np.resize(np.array([1.0, "a", True, pd.NA, 2], object), len(frame))
    frame = frame.assign(mixed=mixed)
    crosses = FivesCrosses(10, **QUICK).fit(frame, target)
    whole = crosses.transform(frame)
    alone = pd.concat([crosses.transform(frame.iloc[[row]]) for row in range(5)])
    names = [cross.name for cross in crosses.crosses_]
    assert (alone[names].to_numpy() == whole[names].to_numpy()[:5]).all()
    assert any("mixed" in name for name in names)


def test_no_rows_have_no_probabilities(model, log):
    assert model.predict_proba(log[0].iloc[:0]).shape == (0, 2)


def test_whole_numbers_may_be_of_numpy(log):
    frame, target = log
    numbers = {"order": np.int64(2), "bins": np.int64(5)}
    crosses = FivesCrosses(np.int64(2), **QUICK | numbers)
    assert len(crosses.fit(frame, target).crosses_) == 2
