"""Locks at a store."""

import threading
import time

import pytest

from fives_tf.errors import UserError
from fives_tf.storage import lease
from fives_tf.storage.lease import Lease


@pytest.fixture
def file(monkeypatch):
    """A file that several leases share; beats come fast."""
    monkeypatch.setattr(lease, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(lease, "LOST_SECONDS", 1.0)
    return {}


def make(file):
    return Lease(
        "s3://bucket/lock",
        lambda: file.get("lock"),
        lambda content: file.__setitem__("lock", content),
        lambda: file.pop("lock", None),
    )


def test_a_lock_is_held_and_let_go(file):
    with make(file).held():
        assert file["lock"]
    assert file == {}
    with make(file).held():
        assert file["lock"]


def test_a_lock_that_another_holds_is_refused(file):
    with make(file).held():
        with pytest.raises(UserError, match="s3://bucket/lock: another process is at work here"):
            with make(file).held():
                pass
        assert file["lock"], "the holder keeps it"


def test_the_lock_of_a_killed_process_is_taken_over(file):
    file["lock"] = b"killed 7"
    start = time.monotonic()
    with make(file).held():
        assert time.monotonic() - start >= 1.0
        assert not file["lock"].startswith(b"killed")


def test_of_many_that_begin_together_one_gets_it(file):
    got, refused = [], []

    def take():
        try:
            with make(file).held():
                got.append(1)
                time.sleep(1.5)
        except UserError:
            refused.append(1)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(got), len(refused)) == (1, 3)


def test_an_error_lets_go_of_the_lock(file):
    with pytest.raises(RuntimeError), make(file).held():
        raise RuntimeError
    assert file == {}
