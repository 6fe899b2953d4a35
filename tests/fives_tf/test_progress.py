import io
import re
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from fives_tf import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def last_line(self):
        text = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", self.getvalue())
        return [line for line in re.split(r"[\r\n]", text) if line.strip()][-1]


def to_terminal(monkeypatch):
    """Called by the test itself: a fixture would be too early for pytest's own standard error."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    return terminal


@pytest.fixture
def clock(monkeypatch):
    """A clock that only the test moves."""
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_lines_come_every_ten_seconds_and_at_the_end(clock, capsys):
    with progress.view("encode", total=400, unit="blocks") as view:
        for done in (100, 200, 300, 400):
            clock.now += 6
            view.update(30 * done, done)
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "encode: 50%, 6,000 blocks, 500 blocks/s, 12 s left",
        "encode: 100%, 12,000 blocks, 500 blocks/s, 0 s left",
        "encode: 100%, 12,000 blocks, 500 blocks/s in 24.0 s",
    ]


def test_the_total_may_be_told_in_units_and_a_text_follows_the_numbers(clock, capsys):
    with progress.view("search", total=4000) as view:
        clock.now += 10
        view.update(1000, suffix="auc 0.7634")
        clock.now += 10
        view.update(2000)
        view.update(2001, suffix="auc 0.7702")
    assert capsys.readouterr().err.splitlines() == [
        "search: 25%, 1,000 rows, 100 rows/s, 30 s left, auc 0.7634",
        "search: 50%, 2,000 rows, 100 rows/s, 20 s left, auc 0.7634",
        "search: 50%, 2,001 rows, 100 rows/s in 20.0 s, auc 0.7702",
    ]


def test_what_was_done_before_the_start_does_not_count_into_the_rate(clock, capsys):
    with progress.view("search", total=4000, start=3000) as view:
        clock.now += 10
        view.update(3000)  # nothing is known of the time left
        view.update(3200)
    assert capsys.readouterr().err.splitlines() == [
        "search: 80%, 3,200 rows, 20 rows/s, 40 s left",
        "search: 80%, 3,200 rows, 20 rows/s in 10.0 s",
    ]


def test_a_resumed_run_with_nothing_left_to_do_is_done(clock, capsys):
    with progress.view("search", total=4000, start=4000):
        pass
    assert capsys.readouterr().err == "search: 100%, 4,000 rows, 0 rows/s in 0.0 s\n"


def test_work_that_fails_is_shown_as_far_as_it_came(capsys):
    with pytest.raises(ZeroDivisionError), progress.view("search", total=4) as view:
        view.update(1)
        raise ZeroDivisionError
    assert capsys.readouterr().err.startswith("search: 25%, 1 rows, ")


def test_on_a_terminal_there_is_a_bar(monkeypatch):
    terminal = to_terminal(monkeypatch)
    with progress.view("search [fives]", total=8000, start=4000) as view:
        view.update(6000, suffix="auc [0.7634]")
    last = terminal.last_line()
    assert last.startswith("search [fives] ")
    assert re.search(r" 75%  6,000 rows, [\d,]+ rows/s, auc \[0.7634\] ", last)


def test_the_bar_knows_the_rate_of_this_process_only(monkeypatch, clock):
    terminal = to_terminal(monkeypatch)
    with progress.view("search", total=8000, start=4000) as view:
        clock.now += 4
        view.update(6000)
    assert " 75%  6,000 rows, 500 rows/s " in terminal.last_line()


def test_an_error_goes_through_the_bar_and_leaves_no_thread(monkeypatch):
    to_terminal(monkeypatch)
    before = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), progress.view("search", total=10):
        raise ZeroDivisionError
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=30)
        assert not thread.is_alive()


QUIET_WORKERS = """
import os, sys
from fives_tf import progress
with progress.view("scan", total=3) as view:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    view.update(3)
    print("chatter of a worker", file=sys.stderr, flush=True)
"""


def test_progress_is_shown_while_standard_error_is_turned_away():
    command = [sys.executable, "-c", QUIET_WORKERS]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.startswith("scan: 100%, 3 rows, ")
    assert "chatter" not in done.stderr
