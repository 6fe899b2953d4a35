"""Functions in processes of their own; all of them are such that a new process can import."""

import math
import os
import signal
import subprocess
import sys
import time

import pytest

from fives_tf.bench.processes import FAILED, RESULT, Call, in_own_process, in_processes
from fives_tf.errors import Interrupted


def test_each_call_has_an_outcome_of_its_own():
    calls = [Call(math.sqrt, (4,)), Call(math.sqrt, (-1,)), Call(os._exit, (3,))]
    found = dict(in_processes(calls, jobs=2))
    assert (found[0].kind, found[0].value) == (RESULT, 2)
    assert (found[1].kind, found[2].kind) == (FAILED, FAILED)
    assert "ValueError: math domain error" in found[1].value
    assert found[2].value == "_exit failed with exit code 3"


def test_cores_are_divided_among_jobs():
    calls = [Call(os.getenv, (name,)) for name in ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS")]
    each = str(max(1, os.cpu_count() // 2))
    assert [outcome.value for _, outcome in in_processes(calls, jobs=2)] == [each] * 2


def test_what_a_process_prints_goes_to_its_log(tmp_path, capfd):
    path = tmp_path / "logs" / "one.log"
    list(in_processes([Call(print, ("hello",), str(path)), Call(math.sqrt, ("x",), str(path))]))
    text = path.read_text()
    assert text.startswith("hello\n")
    assert "Traceback" in text
    assert capfd.readouterr() == ("", "")


def test_a_signal_stops_all_calls_and_starts_no_more(tmp_path):
    calls = [
        Call(os.kill, (os.getpid(), signal.SIGTERM)),
        Call(time.sleep, (600,)),
        Call(os.mkdir, (str(tmp_path / "late"),)),
    ]
    with pytest.raises(Interrupted) as stopped:
        list(in_processes(calls, jobs=2))
    assert stopped.value.signal == signal.SIGTERM
    assert not (tmp_path / "late").exists()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_is_stopped_alone_takes_its_calls_with_it(number, tmp_path):
    """What the call has open ends with it. Of SIGINT it takes a second one."""
    program = (
        "import time\n"
        "from fives_tf.bench.processes import Call, in_processes\n"
        "if __name__ == '__main__':\n"
        "    list(in_processes([Call(print, ('began',)), Call(time.sleep, (600,))]))\n"
    )
    (tmp_path / "program.py").write_text(program)
    command = [sys.executable, "-u", str(tmp_path / "program.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "began\n"
        while process.poll() is None:
            process.send_signal(number)
        assert process.stdout.read() == ""


def test_a_failure_is_raised_where_one_call_is_all():
    with pytest.raises(RuntimeError, match="sqrt failed: ValueError"):
        in_own_process(math.sqrt, -1)
