"""Raw rows made of ids: encoded again, they have these ids."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fives_tf.encoding import BucketField, Encoding, HashField, VocabularyField
from fives_tf.serving.rows import raw_rows

MARKERS = ("", "-1", "0", "999", "NA", "-inf", "inf", "1e-45")
NUMBERS = st.one_of(
    st.sampled_from([-1.0, 0.0, 999.0, 1.0, -3.4e38, 3.4e38, 1.2e-38, -1.2e-38]),
    st.floats(-100, 100, width=32, allow_subnormal=False),
)


@st.composite
def bucket_fields(draw, column: str) -> list[BucketField]:
    """The granularities of a numeric column."""
    missing = tuple(draw(st.lists(st.sampled_from(MARKERS), unique=True, min_size=1)))
    fields = []
    for number in range(draw(st.integers(1, 3))):
        edges = np.unique(np.array(draw(st.lists(NUMBERS, max_size=6)), np.float32))
        rare = draw(st.lists(st.booleans(), min_size=len(edges) + 1, max_size=len(edges) + 1))
        ids = np.where(rare, 1, 1 + np.cumsum(~np.array(rare)))
        counts = np.ones(len(rare) - sum(rare), np.int64)
        fields.append(BucketField(f"{column}@{number}", column, missing, 0, 0, edges, ids, counts))
    return fields


@st.composite
def text_field(draw, column: str) -> VocabularyField | HashField:
    if draw(st.booleans()):
        return HashField(column, column, ("",), 0, 0, draw(st.integers(2, 9)))
    values = draw(
        st.lists(st.one_of(st.sampled_from([b"unseen", b"unseen!"]), st.binary(min_size=1)))
    )
    values = [value for value in dict.fromkeys(values) if b"\n" not in value and b"\r" not in value]
    missing = ("", "?")
    values = [value for value in values if value.decode("latin-1") not in missing]
    array = pa.array(values, pa.large_binary())
    return VocabularyField(column, column, missing, 0, 0, array, np.ones(len(values), np.int64))


@st.composite
def encodings(draw) -> Encoding:
    fields: list = []
    for number in range(draw(st.integers(1, 4))):
        column = f"column {number}"
        if draw(st.booleans()):
            fields += draw(bucket_fields(column))
        else:
            fields.append(draw(text_field(column)))
    return Encoding(tuple(fields), rows=1)


@st.composite
def clean_columns(draw, encoding: Encoding) -> dict:
    """Clean columns of a log, as the pipeline would encode them."""
    rows = draw(st.integers(1, 8))
    columns = {}
    for field in encoding.fields:
        if isinstance(field, BucketField):
            edges = [
                edge for one in encoding.fields if one.column == field.column for edge in one.edges
            ]
            near = st.sampled_from(edges or [0.0]).map(float)
            value = st.one_of(st.none(), NUMBERS, near, st.floats(allow_nan=True))
            values = draw(st.lists(value, min_size=rows, max_size=rows))
            columns[field.column] = pa.array(values, pa.float64())
        else:
            known = field.values.to_pylist() if isinstance(field, VocabularyField) else []
            value = st.sampled_from([b"", b"?", b"new", *known])
            values = draw(st.lists(value, min_size=rows, max_size=rows))
            columns[field.column] = pa.array(values, pa.binary()).dictionary_encode()
    return columns


@settings(deadline=None, max_examples=300)
@given(st.data())
def test_the_ids_of_any_rows_come_back(data):
    encoding = data.draw(encodings())
    ids = encoding.encode(pa.record_batch(data.draw(clean_columns(encoding))))
    again = encoding.encode(clean(raw_rows(encoding, ids)))
    local, found = ids - np.array(encoding.offsets), again - np.array(encoding.offsets)
    for index, field in enumerate(encoding.fields):
        if isinstance(field, HashField):  # a hash does not tell what was hashed
            np.testing.assert_array_equal(found[:, index] == 0, local[:, index] == 0)
        else:
            np.testing.assert_array_equal(found[:, index], local[:, index], field.name)


def test_values_are_those_of_the_vocabulary_and_numbers_fit_single_precision():
    words = VocabularyField("w", "w", ("",), 0, 0, pa.array([b"a", b"unseen"]), np.ones(2))
    edges = np.array([0.1, 5], np.float32)
    numbers = BucketField("n", "n", ("", "-1"), 0, 0, edges, np.array([2, 1, 3]), np.ones(2))
    encoding = Encoding((words, numbers), rows=1)
    local = np.array([[0, 0], [1, 1], [2, 2], [3, 3]])
    rows = raw_rows(encoding, local + np.array(encoding.offsets))
    assert rows["w"] == [b"", b"unseen!", b"a", b"unseen"]
    assert np.isnan(rows["n"][0])
    np.testing.assert_array_equal(np.float32(rows["n"]), rows["n"])


def clean(rows: dict) -> pa.RecordBatch:
    """Raw rows as the parser would hand them on."""
    return pa.record_batch(
        {
            name: pa.array(values, pa.binary()).dictionary_encode()
            if isinstance(values[0], bytes)
            else pa.array(np.array(values), pa.float64(), from_pandas=True)
            for name, values in rows.items()
        }
    )
