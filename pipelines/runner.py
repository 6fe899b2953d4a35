"""Runs a pipeline on the runner that the user named, by default in this process."""

import logging
import os
import re
from collections.abc import Callable

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

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
    options = PipelineOptions(flags)
    if options.view_as(StandardOptions).runner is not None:
        return options
    _refuse_unknown(options)
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


def is_local(options: PipelineOptions) -> bool:
    """Whether the workers run on this machine."""
    return options.view_as(StandardOptions).runner in (LOCAL_RUNNER, "DirectRunner")


def run(options: PipelineOptions, build: Callable[[beam.Pipeline], None]) -> None:
    """Builds a pipeline, runs it and waits for its end.

    A `UserError` raised on a worker comes back as text within Beam's own error; here it becomes a
    `UserError` again.
    """
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    try:
        with beam.Pipeline(options=options) as pipeline:
            build(pipeline)
    except UserError:
        raise
    except Exception as error:
        message = re.search(r"UserError: (.+?)(?: \[while running|\n|$)", str(error))
        if message is None:
            raise
        raise UserError(message.group(1)) from None


def _refuse_unknown(options: PipelineOptions) -> None:
    known = set(options.get_all_options())
    for name in set(options.get_all_options(retain_unknown_options=True)) - known:
        raise UserError(
            f"unknown flag --{name}{nearest(name, known)} "
            "See `fives preprocess --help`; flags not listed there go to Beam."
        )
