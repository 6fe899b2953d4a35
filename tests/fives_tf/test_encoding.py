import math

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fives_tf import storage
from fives_tf.encoding import (
    MISSING,
    RARE,
    BucketField,
    Encoding,
    HashField,
    VocabularyField,
    is_missing_category,
    to_single,
)
from fives_tf.errors import UserError
from fives_tf.fitting import (
    NumericSummary,
    bucket_fields,
    count_values,
    frequent_values,
)
from fives_tf.parsing import to_category
from fives_tf.schema import Column, Discretize

MARKERS = ("", "NA", "?", "-1", "nicht bekannt ü")
# Every column is made of few values, so that a batch holds frequent, rare and unseen ones.
TEXTS = st.one_of(
    st.sampled_from(
        ["", "a", "A", " a", "a ", "NA", "?", "Zürich", "東京", "🦆", "\x00", "0", "-0"]
    ),
    st.sampled_from([str(2**53), str(2**53 + 1), str(2**63 - 1), str(-(2**63))]),
    st.sampled_from(["two\nlines", "carriage\r", "tab\there", "nicht bekannt ü", "nan", "a\n"]),
    st.text(max_size=8),
)
NUMBERS = st.one_of(
    st.sampled_from(
        [0.0, -0.0, 1.0, -1.0, 2.5, 0.1, 1e38, -1e38, 1e300, 5e-324, 1e-42, 2.0**24 + 1]
    ),
    st.sampled_from([math.nan, math.inf, -math.inf]),
    st.none(),
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-20, 20).map(float),
)
KINDS = st.sampled_from(
    [
        Discretize("width", (2, 10)),
        Discretize("quantile", (3, 50)),
        Discretize("log", (4,)),
        Discretize("edges", (), (-1.0, 0.1, 7.0)),
        Discretize("width", (2,), values=True),
    ]
)


def fit_encoding(texts, numbers, discretize, min_count):
    """An encoding of three columns: with a vocabulary, hashed, and numeric."""
    values = to_category(pa.array(texts, pa.string()), "text")
    counts = count_values(values)
    counts = counts.filter(pa.array(~is_missing_category(counts["value"], MARKERS)))
    frequent = frequent_values(counts, min_count, max_vocab=5)
    single = to_single(pa.array(numbers, pa.float64()))
    column = Column("number", True, MARKERS, min_count, discretize)
    return Encoding(
        (
            VocabularyField(
                "text", "text", MARKERS, 0, 0, frequent["value"], frequent["count"].to_numpy()
            ),
            HashField("hashed", "text", MARKERS, 0, 0, 7),
            *bucket_fields(column, NumericSummary.of(single, np.isnan(single))),
        ),
        rows=len(texts),
    )


def save(encoding, directory):
    for name, content in encoding.to_files().items():
        storage.write(storage.join(str(directory), name), content)


def encode_slowly(encoding, texts, numbers):
    """What the ids should be, one value at a time, from the definition."""
    rows = []
    for text, number in zip(texts, numbers, strict=True):
        row = []
        for field, offset in zip(encoding.fields, encoding.offsets, strict=True):
            row.append(offset + _one_id(field, text, number))
        rows.append(row)
    return np.array(rows, np.int64).reshape(len(texts), len(encoding.fields))


def _one_id(field, text, number):
    if isinstance(field, VocabularyField | HashField):
        if text is None or text in field.missing:
            return MISSING
        if isinstance(field, HashField):
            return 2 + int(tf.strings.to_hash_bucket_fast([text], field.buckets)[0])
        known = field.values.to_pylist()
        return 2 + known.index(text.encode()) if text.encode() in known else RARE
    if number is None or math.isnan(number):
        return MISSING
    with np.errstate(over="ignore"):
        single = np.float32(number)
    if abs(single) < np.finfo(np.float32).tiny:
        single = np.float32(0)
    if single == np.float32(-1):  # the one marker that is a number
        return MISSING
    return int(field.ids[sum(bool(edge <= single) for edge in field.edges)])


@settings(
    max_examples=1200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    fitted=st.lists(st.tuples(TEXTS, NUMBERS), min_size=1, max_size=30),
    seen=st.lists(st.tuples(st.none() | TEXTS, NUMBERS), max_size=30),
    discretize=KINDS,
    min_count=st.integers(1, 3),
)
def test_both_faces_give_the_ids_of_the_definition(fitted, seen, discretize, min_count, tmp_path):
    encoding = fit_encoding(*zip(*fitted, strict=True), discretize, min_count)
    save(encoding, tmp_path)
    encoding = Encoding.load(str(tmp_path))
    rows = [*fitted, *seen]
    texts, numbers = zip(*rows, strict=True)

    batch = pa.RecordBatch.from_pydict(
        {
            "text": to_category(pa.array(texts, pa.string()), "text"),
            "number": pa.array(numbers, pa.float64()),
        }
    )
    arrow = encoding.encode(batch)
    module = encoding.tensorflow(tmp_path)
    graph = module(
        {
            "text": tf.constant([text or "" for text in texts]),
            "number": tf.constant([math.nan if x is None else x for x in numbers], tf.float64),
        }
    ).numpy()

    expected = encode_slowly(encoding, texts, numbers)
    np.testing.assert_array_equal(arrow, expected)
    np.testing.assert_array_equal(graph, expected)


def test_an_encoding_survives_its_files(tmp_path):
    texts = ["a", "a", "b", "b", "ü", "NA", "x\ty", "x\ty"]
    encoding = fit_encoding(texts, [0.1, 0.2, 0.3, 5, None, -1, 1e9, 3], Discretize(), 2)
    save(encoding, tmp_path)
    loaded = Encoding.load(str(tmp_path))
    assert loaded.to_files() == encoding.to_files()
    assert (tmp_path / "vocab/text.txt").read_text() == "a\nb\nx\ty\n"
    assert (tmp_path / "counts/text.txt").read_text() == "2\n2\n2\n"


def test_ids_of_fields_do_not_overlap():
    encoding = fit_encoding(["a", "b"], [1.0, 2.0], Discretize("width", (2, 10)), 1)
    sizes = [field.size for field in encoding.fields]
    assert encoding.offsets == tuple(np.cumsum([0, *sizes[:-1]]))
    assert encoding.size == sum(sizes)


def test_a_column_name_may_be_anything(tmp_path):
    names = ["a/b", "..", "ü €", "C:\\x", "a%2Fb", "CON", "x", "x.counts", "長" * 200, "長" * 201]
    fields = tuple(
        VocabularyField(name, name, ("",), 0, 0, pa.array([name.encode()]), np.array([1]))
        for name in names
    )
    save(Encoding(fields, 1), tmp_path)
    assert [f.values[0].as_py().decode() for f in Encoding.load(str(tmp_path)).fields] == names
    assert {path.parent.name for path in tmp_path.rglob("*.txt")} == {"vocab", "counts"}


def test_the_buckets_have_readable_names():
    field = BucketField(
        "x@3",
        "x",
        ("",),
        0,
        0,
        edges=np.array([1, 2.5], np.float32),
        ids=np.array([2, 1, 3]),
        counts=np.array([9, 8]),
    )
    assert [field.bucket_name(identity) for identity in (2, 3)] == ["(-inf, 1)", "[2.5, inf)"]


def test_an_encoding_of_another_version_is_refused(tmp_path):
    encoding = fit_encoding(["a"], [1.0], Discretize(), 1)
    files = encoding.to_files()
    files["encoding.json"] = files["encoding.json"].replace(b'"version": 1', b'"version": 9')
    with pytest.raises(UserError, match="version 9 is not known"):
        Encoding.from_files(files.__getitem__)


def test_the_graph_takes_an_empty_batch(tmp_path):
    encoding = fit_encoding(["a"], [1.0], Discretize(), 1)
    save(encoding, tmp_path)
    columns = {"text": tf.constant([], tf.string), "number": tf.constant([], tf.float32)}
    assert encoding.tensorflow(tmp_path)(columns).shape == (0, len(encoding.fields))


def test_a_vocabulary_fitted_anew_at_the_same_place_is_read_anew(tmp_path):
    for texts in (["a", "a", "b"], ["b", "b", "a"]):
        encoding = fit_encoding(texts, [1.0] * 3, Discretize(), 1)
        save(encoding, tmp_path)
        columns = {"text": tf.constant(texts), "number": tf.ones(3)}
        assert encoding.tensorflow(tmp_path)(columns)[:, 0].numpy().tolist() == [2, 2, 3]
