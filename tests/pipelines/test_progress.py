import io
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipelines import progress


class Listener(io.StringIO):
    """A standard error that tells when something was written to it."""

    def __init__(self):
        super().__init__()
        self.written = threading.Event()

    def write(self, text):
        size = super().write(text)
        self.written.set()
        return size


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "progress")


def report_from_threads(path, blocks, rows, size):
    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(progress.report, path, rows, size) for _ in range(blocks)]:
            done.result()


def shown(capsys):
    output = capsys.readouterr()
    assert output.out == ""
    return output.err.splitlines()


def test_the_blocks_of_all_threads_are_added_up(path, capsys):
    with progress.show(path, "pass 1: fit", total=1600 * 70):
        report_from_threads(path, blocks=1600, rows=3, size=70)
    (line,) = shown(capsys)
    assert re.fullmatch(r"pass 1: fit: 100%, 4,800 rows, [\d,]+ rows/s in \d+\.\d s", line)


def stopped(path, total, *blocks, **options):
    """Shows work that stops before its end."""
    with pytest.raises(KeyboardInterrupt), progress.show(path, "scan", total, **options):
        for rows, size in blocks:
            progress.report(path, rows, size)
        raise KeyboardInterrupt


def test_a_part_of_the_work_is_shown_as_a_share_of_the_bytes(path, capsys):
    stopped(path, 1000, (2, 100), (0, 150), unit="blocks")
    (line,) = shown(capsys)
    assert line.startswith("scan: 25%, 2 blocks, ")
    assert " blocks/s in " in line


def test_work_that_is_done_is_shown_as_all(path, capsys):
    with progress.show(path, "scan", total=10):
        progress.report(path, 5, 9)
    assert shown(capsys)[0].startswith("scan: 100%, 5 rows")


def test_a_share_is_never_above_all(path, capsys):
    with progress.show(path, "scan", total=10):
        progress.report(path, 5, 11)
    assert shown(capsys)[0].startswith("scan: 100%, 5 rows")


def test_nothing_done_is_shown_as_nothing(path, capsys):
    for total in (0, 10):
        stopped(path, total)
        (line,) = shown(capsys)
        assert line.startswith("scan: 0%, 0 rows, 0 rows/s in ")


def test_what_an_earlier_run_reported_does_not_count(path, capsys):
    progress.report(path, 7, 7)
    for rows in (1, 2):
        stopped(path, 10, (rows, 5))
        assert shown(capsys)[0].startswith(f"scan: 50%, {rows} rows")


def test_without_a_path_nothing_is_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    progress.report(None, 1, 1)
    assert os.listdir(tmp_path) == []


def test_plain_lines_appear_while_the_work_is_going_on(path, monkeypatch):
    listener = Listener()
    monkeypatch.setattr(sys, "stderr", listener)
    monkeypatch.setattr("fives_tf.progress.PLAIN_SECONDS", 0.0)
    with progress.show(path, "encode", total=400):
        progress.report(path, 30, 100)
        assert listener.written.wait(timeout=30)
        meanwhile = listener.getvalue()
    first = meanwhile.splitlines()[0]
    assert re.match(r"encode: 25%, 30 rows, [\d,]+ rows/s, \d+ s left", first)
    assert "s left" not in listener.getvalue().splitlines()[-1]


def test_an_error_goes_through_and_leaves_no_thread(path):
    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), progress.show(path, "scan", total=10):
        raise ZeroDivisionError
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=30)
        assert not thread.is_alive()
