import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fives_tf.scanning import (
    NEWLINE,
    State,
    blank_comments,
    is_blank,
    lone_returns,
    scan,
    scan_fast,
)
from fives_tf.schema import Format

SIGNS = st.lists(st.sampled_from(b'a",\n#"'), max_size=14).map(bytes)
FORMS = st.sampled_from([Format(), Format(comment="#"), Format(quote=None)])


def scan_slowly(data, form, state, before):
    """The rules, sign by sign."""
    quote = ord(form.quote) if form.quote else None
    delimiter, comment = ord(form.delimiter), (form.comment or "\0").encode()
    previous = before
    for sign in data:
        line_starts = state == State.OUTSIDE and previous == NEWLINE
        if line_starts and bytes([sign]) == comment:
            state = State.COMMENT
        if state == State.INSIDE:
            state = State.CLOSED if sign == quote else State.INSIDE
        elif state == State.CLOSED and sign == quote:
            state = State.INSIDE
        elif sign == NEWLINE:
            state = State.OUTSIDE
        elif state != State.COMMENT:
            opens = sign == quote and previous in (delimiter, NEWLINE)
            state = State.INSIDE if opens else State.OUTSIDE
        previous = sign
    return state


def ends_slowly(data, form):
    """Where records end: where a line break leaves the state outside."""
    return [
        place
        for place, sign in enumerate(data)
        if sign == NEWLINE
        and scan_slowly(data[: place + 1], form, State.OUTSIDE, NEWLINE) == State.OUTSIDE
    ]


@given(SIGNS, FORMS)
@settings(deadline=None, max_examples=1000)
def test_records_end_where_the_rules_say(data, form):
    found = scan(data, form)
    assert found.ends.tolist() == ends_slowly(data, form)
    assert found.lines == data.count(b"\n")
    assert found.state == scan_slowly(data, form, State.OUTSIDE, NEWLINE)


@given(SIGNS, FORMS, st.integers(0, 14))
@settings(deadline=None, max_examples=1000)
def test_a_text_may_be_cut_anywhere(data, form, cut):
    cut = min(cut, len(data))
    first = scan(data[:cut], form)
    second = scan(data[cut:], form, first.state, data[cut - 1] if cut else NEWLINE)
    whole = scan(data, form)
    assert [*first.ends, *(second.ends + cut)] == whole.ends.tolist()
    assert second.state == whole.state


@given(SIGNS)
@settings(deadline=None, max_examples=500)
def test_the_parser_finds_the_same_records(data):
    data = b"x,y\n" + data + b"\n"
    found = scan(data, Format())
    assume(found.state != State.INSIDE)
    malformed = []
    table = pa_csv.read_csv(
        pa.BufferReader(data),
        pa_csv.ReadOptions(column_names=["x", "y"], use_threads=False),
        pa_csv.ParseOptions(
            newlines_in_values=True,
            invalid_row_handler=lambda row: malformed.append(row) or "skip",
        ),
        pa_csv.ConvertOptions(column_types={"x": pa.binary(), "y": pa.binary()}),
    )
    assert table.num_rows + len(malformed) == np.sum(~is_blank(data, found.ends))


@given(SIGNS, FORMS)
@settings(deadline=None)
def test_a_fast_scan_that_is_certain_is_right(data, form):
    fast = scan_fast(data, form, State.OUTSIDE, NEWLINE)
    if fast.certain:
        assert fast.ends.tolist() == ends_slowly(data, form)


def test_a_fast_scan_is_certain_of_ordinary_text():
    data = b'1,"a,\n""b""",c\r\n2,,""\n'
    assert scan_fast(data, Format(), State.OUTSIDE, NEWLINE).certain


def test_comments_are_emptied_but_not_within_quotes():
    form = Format(comment="#")
    data = b'# 5" disk\n1,"a\n#b"\n#end\n2,#c\n'
    assert blank_comments(data, form) == b'\n1,"a\n#b"\n\n2,#c\n'


@pytest.mark.parametrize(
    ("data", "places"),
    [
        (b"a\r\nb\r\n", []),
        (b"a\rb\n", [1]),
        (b'"a\rb"\r\n', []),
        (b'"a\rb",c\rd\n', [7]),
        (b"a\r", [1]),
    ],
)
def test_lone_carriage_returns_are_found_outside_quotes(data, places):
    assert lone_returns(data, Format()).tolist() == places
