"""Runs a pipeline on the runner that the user named, by default in this process."""

import contextlib
import copy
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.runner import create_runner

from fives_tf.errors import UserError, nearest

# DirectRunner would first look for a binary on the network; this one never does.
LOCAL_RUNNER = "FnApiRunner"


def pipeline_options(
    flags: list[str], workers: int = 0, worker_kind: str = "threads"
) -> PipelineOptions:
    """Turns a user's flags into Beam's options.

    Args:
        flags: Flags for Beam, such as `--runner=FlinkRunner`.
        workers: How many workers the in-process runner has; 0 for one a processor core.
        worker_kind: `threads` or `processes`.
    """
    options = named_runner(flags)
    if options is not None:
        if workers:
            named = options.view_as(StandardOptions).runner
            raise UserError(f"--workers is for the in-process runner, not for {named}.")
        return options
    _refuse_unknown(PipelineOptions(flags))
    mode = {"threads": "multi_threading", "processes": "multi_processing"}[worker_kind]
    workers = workers or os.cpu_count() or 1
    if workers == 1 and worker_kind == "threads":
        mode = "in_memory"
    return PipelineOptions(
        [
            f"--runner={LOCAL_RUNNER}",
            f"--direct_running_mode={mode}",
            f"--direct_num_workers={workers}",
            *flags,
        ]
    )


def named_runner(flags: list[str]) -> PipelineOptions | None:
    """Beam's options if the flags name a runner, and None if they do not."""
    for flag in flags:
        if flag.startswith("--s3_"):  # a secret there would be seen by all who list processes
            raise UserError(
                f"{flag.partition('=')[0]}: a store is reached by environment variables, on every "
                "worker too: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and others."
            )
    options = PipelineOptions(flags)
    named = options.view_as(StandardOptions).runner
    if named is None:
        return None
    _check_runner(named)
    return options


def named_or_none(flags: list[str], verb: str) -> PipelineOptions | None:
    """Beam's options for a command that runs without Beam unless a runner is named.

    Args:
        flags: Flags for Beam.
        verb: The command, for the error if there are flags but no runner.
    """
    options = named_runner(flags) if flags else None
    if flags and options is None:
        raise UserError(
            f"unknown flag {flags[0]}; see `fives {verb} --help`. Flags for Beam need --runner."
        )
    return options


def is_local(options: PipelineOptions) -> bool:
    """Whether the workers run on this machine."""
    return options.view_as(StandardOptions).runner in (LOCAL_RUNNER, "DirectRunner")


def run(options: PipelineOptions, build: Callable[[beam.Pipeline], None]) -> None:
    """Builds a pipeline, runs it and waits for its end.

    A `UserError` raised on a worker comes back as text within Beam's own error; here it becomes a
    `UserError` again.
    """
    # By default the in-process runner flushes the streams between its workers from a timer's
    # thread, without a lock against the thread that writes: elements get lost. Without the timer
    # they are flushed by size, by the writer itself.
    worker_handlers.DATA_BUFFER_TIME_LIMIT_MS = 0
    options = copy.deepcopy(options)  # a run on a cluster takes the runner's name out of them
    try:
        with _quiet_stderr(), beam.Pipeline(options=options) as pipeline:
            build(pipeline)
    except Exception as error:
        text = f"UserError: {error}" if isinstance(error, UserError) else str(error)
        message = re.search(r"UserError: (.+?)(?: \[while running|\n|$)", text)
        if message is None:
            raise
        raise UserError(message.group(1)) from None


def _check_runner(name: str) -> None:
    try:
        create_runner(name)
    except (ValueError, ImportError) as error:
        raise UserError(f"--runner={name}: {error}") from None


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Keeps what Beam's workers print from the user, unless the run fails and it was no mistake.

    Workers print a traceback for every error and, as processes, every step of their start; so does
    a cluster's job server. They write to the file descriptor, so that is where it must be caught.
    """
    with tempfile.TemporaryFile() as caught:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield
        except Exception as error:
            if "UserError" not in f"{error!r}":
                caught.seek(0)
                os.write(kept, caught.read())
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def _refuse_unknown(options: PipelineOptions) -> None:
    known = set(options.get_all_options())
    for name in set(options.get_all_options(retain_unknown_options=True)) - known:
        raise UserError(
            f"unknown flag --{name}{nearest(name, known)} "
            "See `fives preprocess --help`; flags not listed there go to Beam."
        )
