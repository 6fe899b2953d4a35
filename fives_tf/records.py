"""Rows as `tf.train.Example` in TFRecord framing, written in bulk from arrays.

The bytes are those that the protocol buffer library would write for the features `ids` (packed
int64 list) and `label` (float list of one); no proto object is built, and TensorFlow is not needed.
"""

import google_crc32c
import numpy as np
import pyarrow as pa

_IDS_ENTRY = np.frombuffer(b"\x0a\x03ids\x12", np.uint8)  # key "ids", then the value's tag
_LABEL_ENTRY = np.frombuffer(b"\x0a\x11\x0a\x05label\x12\x08\x12\x06\x0a\x04", np.uint8)
_CHUNK = 4096  # rows that are laid out at a time, so that the work stays in the processor's cache
_HEAD, _TAIL = 12, 4  # TFRecord: length and its checksum before the data, the data's after


def frame_examples(ids: np.ndarray, label: np.ndarray) -> pa.LargeBinaryArray:
    """One framed TFRecord a row; joined, they are a TFRecord file.

    Args:
        ids: Global ids, int32 [rows, fields].
        label: 0.0 or 1.0, float32 [rows].
    """
    chunks = [pa.array([], pa.large_binary())]
    for start in range(0, len(ids), _CHUNK):
        chunks.append(_frame_chunk(ids[start : start + _CHUNK], label[start : start + _CHUNK]))
    return pa.concat_arrays(chunks)


def _frame_chunk(ids: np.ndarray, label: np.ndarray) -> pa.LargeBinaryArray:
    rows = len(ids)
    payload, used = _varints(ids)
    length = used.sum(axis=1)
    # Messages nest from the inside out: each adds a tag and its length in front of what it holds.
    parts = [(payload, used)]
    for tag in (b"\x0a", b"\x1a", _IDS_ENTRY, b"\x0a"):
        length = _put_in_front(parts, tag, length)
    tail = np.concatenate(
        [
            np.broadcast_to(_LABEL_ENTRY, (rows, len(_LABEL_ENTRY))),
            label.astype("<f4").reshape(-1, 1).view(np.uint8),
        ],
        axis=1,
    )
    parts.append((tail, None))
    length = _put_in_front(parts, b"\x0a", length + tail.shape[1])
    return _frame(parts, length)


def _varints(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row's numbers as base-128 varints, padded, and which of the bytes are used."""
    rows = len(numbers)
    numbers = numbers.reshape(rows, -1).astype(np.uint32)
    width = max(1, -(-int(numbers.max(initial=0)).bit_length() // 7))
    digits = np.empty((*numbers.shape, width), np.uint8)
    used = np.empty(digits.shape, bool)
    for place in range(width):
        rest = numbers >> np.uint32(7 * place)
        more = rest > 0x7F
        digits[:, :, place] = (rest.astype(np.uint8) & 0x7F) | (more.view(np.uint8) << 7)
        used[:, :, place] = rest > 0 if place else True
    return digits.reshape(rows, -1), used.reshape(rows, -1)


def _put_in_front(parts: list, tag: bytes | np.ndarray, length: np.ndarray) -> np.ndarray:
    """Puts a tag and the length of what follows before the parts; returns the new length."""
    rows = len(length)
    tag = np.frombuffer(bytes(tag), np.uint8)
    digits, used = _varints(length)
    parts[:0] = [(np.broadcast_to(tag, (rows, len(tag))), None), (digits, used)]
    return length + len(tag) + used.sum(axis=1)


def _frame(parts: list, length: np.ndarray) -> pa.LargeBinaryArray:
    rows = len(length)
    space = {side: np.zeros((rows, size), np.uint8) for side, size in (("h", _HEAD), ("t", _TAIL))}
    parts = [(space["h"], None), *parts, (space["t"], None)]
    padded = np.concatenate([content for content, _ in parts], axis=1)
    used = np.concatenate(
        [np.ones(c.shape, bool) if mask is None else mask for c, mask in parts], axis=1
    )
    flat = padded[used]
    offsets = np.concatenate([[0], np.cumsum(length + _HEAD + _TAIL)])
    start, end = offsets[:-1] + _HEAD, offsets[1:] - _TAIL

    data = flat.tobytes()
    checksum = [
        google_crc32c.value(data[a:b]) for a, b in zip(start.tolist(), end.tolist(), strict=True)
    ]
    _patch(flat, end, _masked(np.array(checksum, np.uint32)))
    distinct, place = np.unique(length, return_inverse=True)
    lengths = distinct.astype("<u8")
    checksum = [google_crc32c.value(one.tobytes()) for one in lengths]
    _patch(flat, offsets[:-1], lengths[place])
    _patch(flat, offsets[:-1] + 8, _masked(np.array(checksum, np.uint32))[place])
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), rows, [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(flat)]
    )


def _masked(checksum: np.ndarray) -> np.ndarray:
    """The checksum as TFRecord stores it."""
    rotated = (checksum >> np.uint32(15)) | (checksum << np.uint32(17))
    return (rotated + np.uint32(0xA282EAD8)).astype("<u4")


def _patch(flat: np.ndarray, at: np.ndarray, values: np.ndarray) -> None:
    """Writes each value's bytes at its place."""
    content = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
    flat[at[:, None] + np.arange(content.shape[1])] = content
