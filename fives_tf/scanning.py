"""Where the records of a text end, by the rules of the parser that reads them later.

A quote opens a quoted value only at the start of a value; anywhere else it is an ordinary sign.
Within a quoted value a doubled quote is a quote, and line breaks belong to the value. A line that
begins with the comment sign is no record. Since a quote far ahead can decide what a line break
means, a text that is read from its middle must know the state that it begins in.
"""

import enum
import re
from dataclasses import dataclass

import numpy as np

from fives_tf.schema import Format

NEWLINE = ord("\n")


class State(enum.IntEnum):
    """Where in a record a text is cut."""

    OUTSIDE = 0
    INSIDE = 1  # within a quoted value
    CLOSED = 2  # just behind a quote that closes a value, unless another one follows
    COMMENT = 3


@dataclass(frozen=True)
class Scan:
    """What a text holds if it begins in a given state.

    Attributes:
        ends: Where the line breaks that end records are; comments and empty lines count as records.
        lines: The number of all line breaks.
        state: The state at the end.
        certain: Whether this is right. A scan that counted quotes only is not, if one of them is
            no quote by the rules, or if there may be comments.
    """

    ends: np.ndarray
    lines: int
    state: State
    certain: bool


def scan(data: bytes, form: Format, state: State = State.OUTSIDE, before: int = NEWLINE) -> Scan:
    """Finds the ends of the records.

    Args:
        data: The text.
        form: The format of the log.
        state: The state in which the text begins.
        before: The byte before the text.
    """
    fast = scan_fast(data, form, state, before)
    return fast if fast.certain else scan_exactly(data, form, state, before)


def scan_fast(data: bytes, form: Format, state: State, before: int) -> Scan:
    """Counts quotes: right for a text without stray quotes and comments, and says so."""
    content = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(content == NEWLINE)
    certain = state != State.COMMENT and not (form.comment and _comment_sign(form) in data)
    if form.quote is None:
        return Scan(newlines, len(newlines), State.OUTSIDE, certain)
    quotes = np.flatnonzero(content == ord(form.quote))
    if len(quotes) == 0:
        inside = state == State.INSIDE
        ends = newlines[:0] if inside else newlines
        end_state = State.INSIDE if inside else State.OUTSIDE
        return Scan(ends, len(newlines), end_state if data else state, certain)
    inside = state == State.INSIDE
    opening = quotes[1 if inside else 0 :: 2]
    previous = content[opening - 1]
    if len(opening) and opening[0] == 0:
        doubled = before == ord(form.quote)
        previous[0] = ord("x") if doubled and state != State.CLOSED else before
    starts = np.array([ord(form.delimiter), NEWLINE, ord("\r"), ord(form.quote)], np.uint8)
    certain = certain and bool(np.isin(previous, starts).all())
    outside = (np.searchsorted(quotes, newlines) + inside) % 2 == 0
    if (len(quotes) + inside) % 2:
        end_state = State.INSIDE
    else:
        end_state = State.CLOSED if quotes[-1] == len(data) - 1 else State.OUTSIDE
    return Scan(newlines[outside], len(newlines), end_state, certain)


def scan_exactly(data: bytes, form: Format, state: State, before: int) -> Scan:
    """Follows the parser from quote to quote."""
    content = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(content == NEWLINE)
    quoted, comments = _spans(data, form, state, before)
    hidden = np.zeros(len(newlines), bool)
    for start, end in quoted:
        hidden[np.searchsorted(newlines, start) : np.searchsorted(newlines, end)] = True
    end_state = State.OUTSIDE
    if quoted and quoted[-1][1] >= len(data):
        end_state = State.INSIDE if quoted[-1][1] > len(data) else State.CLOSED
    elif comments and comments[-1][1] == len(data):
        end_state = State.COMMENT
    return Scan(newlines[~hidden], len(newlines), end_state if data else state, certain=True)


def blank_comments(data: bytes, form: Format) -> bytes:
    """Empties the comment lines of whole records; empty lines are passed over by the parser."""
    if not form.comment or _comment_sign(form) not in data:
        return data
    _, comments = _spans(data, form, State.OUTSIDE, NEWLINE)
    pieces, last = [], 0
    for start, end in comments:
        pieces.append(data[last:start])
        last = end
    return b"".join([*pieces, data[last:]])


def lone_returns(data: bytes, form: Format) -> np.ndarray:
    """Where carriage returns stand that neither belong to a line break nor to a quoted value."""
    if b"\r" not in data or data.count(b"\r") == data.count(b"\r\n"):
        return np.empty(0, np.int64)
    content = np.frombuffer(data + b" ", np.uint8)
    lone = np.flatnonzero((content[:-1] == ord("\r")) & (content[1:] != NEWLINE))
    quoted, _ = _spans(data, form, State.OUTSIDE, NEWLINE)
    hidden = np.zeros(len(lone), bool)
    for start, end in quoted:
        hidden |= (start <= lone) & (lone < end)
    return lone[~hidden]


def is_blank(data: bytes, ends: np.ndarray) -> np.ndarray:
    """Which of the records that end at `ends` are empty lines."""
    content = np.frombuffer(data, np.uint8)
    starts = np.concatenate([[0], ends[:-1] + 1])
    length = ends - starts
    return (length == 0) | ((length == 1) & (content[starts] == ord("\r")))


def _spans(
    data: bytes, form: Format, state: State, before: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where quoted values and comments begin and end; an open value ends after the data."""
    quoted: list[tuple[int, int]] = []
    comments: list[tuple[int, int]] = []
    quote = form.quote.encode() if form.quote else b""
    token = _token(form)
    # The byte before stands in front, so that the rules at the start are those of any place.
    text = bytes([before]) + data
    place, inside = 1, state == State.INSIDE
    if state == State.CLOSED and data.startswith(quote):
        place, inside = 2, True
    elif state == State.COMMENT:
        end = text.find(b"\n", 1)
        place = len(text) if end < 0 else end
        comments.append((0, place - 1))
    start = place
    while True:
        if inside:
            place = _closing(text, quote, place)
            quoted.append((start - 1, place - 1))
        found = token.search(text, place)
        if found is None:
            return quoted, comments
        inside = found.group() == quote
        start = place = found.end()
        if not inside:
            comments.append((found.start() - 1, found.end() - 1))


def _closing(text: bytes, quote: bytes, place: int) -> int:
    """The place after the quote that closes a value; after the end of the text if none does."""
    while True:
        at = text.find(quote, place)
        if at < 0:
            return len(text) + 1
        if text[at + 1 : at + 2] != quote:
            return at + 1
        place = at + 2


def _token(form: Format) -> re.Pattern[bytes]:
    """What to look for outside quoted values: a quote at the start of a value, or a comment."""
    choices = []
    if form.quote:
        delimiter, quote = re.escape(form.delimiter.encode()), re.escape(form.quote.encode())
        choices.append(b"(?<=[" + delimiter + b"\r\n])" + quote)
    if form.comment:
        choices.append(b"(?<=\n)" + re.escape(_comment_sign(form)) + b"[^\n]*")
    return re.compile(b"|".join(choices) or b"(?!)")


def _comment_sign(form: Format) -> bytes:
    return form.comment.encode() if form.comment else b""
