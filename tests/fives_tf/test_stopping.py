import os
import signal

import pytest

from fives_tf.errors import Interrupted, UserError
from fives_tf.stopping import terminable


def test_sigterm_becomes_an_interruption():
    with pytest.raises(Interrupted) as caught, terminable():
        os.kill(os.getpid(), signal.SIGTERM)
    assert caught.value.signal == signal.SIGTERM


def test_so_does_what_native_code_makes_of_it():
    with pytest.raises(Interrupted), terminable():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except BaseException:
            raise RuntimeError("MISMATCH of exception types") from None


def test_other_errors_stay_as_they_are_and_the_handler_goes():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(UserError, match="a mistake"), terminable():
        assert signal.getsignal(signal.SIGTERM) != before
        raise UserError("a mistake")
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with terminable():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
