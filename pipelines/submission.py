"""What is checked before a pipeline goes to workers on other machines, each with its remedy."""

import os
import socket
from collections.abc import Iterable
from typing import Any

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    PipelineOptions,
    PortableOptions,
    SetupOptions,
    SparkRunnerOptions,
    StandardOptions,
    WorkerOptions,
)
from apache_beam.runners.portability.flink_runner import MAGIC_HOST_NAMES

from fives_tf.errors import UserError
from pipelines import flink, runner

ANSWER_SECONDS = 10


class SubmissionOptions(PipelineOptions):
    """Our own flags for workers on other machines."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--shared_paths",
            action="store_true",
            help="local paths are the same on every worker, such as those of an NFS mount",
        )


def prepare(options: PipelineOptions, paths: Iterable[str]) -> None:
    """Checks what can be checked before a pipeline is submitted, and fills in what was not given.

    Nothing happens if the pipeline runs in this process.

    Args:
        options: Those of the pipeline.
        paths: The files and patterns that its workers read and write.
    """
    if runner.is_local(options):
        return
    name = options.view_as(StandardOptions).runner
    if not _workers_are_here(options, name):
        _check_paths(paths, name, options.view_as(SubmissionOptions).shared_paths)
        _check_dependencies(options, name)
    endpoint = options.view_as(PortableOptions).job_endpoint
    if endpoint:
        _check_endpoint(endpoint)
    elif name == "FlinkRunner":
        flink.prepare(options)
    elif name == "PortableRunner":
        raise UserError("--runner=PortableRunner: needs --job_endpoint=HOST:PORT of a job server.")


def named(flags: list[str], verb: str, paths: Iterable[str]) -> PipelineOptions | None:
    """Beam's options, prepared, for a command that runs without Beam unless a runner is named.

    Args:
        flags: Flags for Beam.
        verb: The command.
        paths: As for `prepare`.
    """
    options = runner.named_or_none(flags, verb)
    if options is not None:
        prepare(options, paths)
    return options


def _workers_are_here(options: PipelineOptions, name: str) -> bool:
    """Whether the workers are this very process, called from a cluster or an engine within it."""
    given = options.view_as(PortableOptions).environment_type
    master = options.view_as(FlinkRunnerOptions).flink_master
    spark = options.view_as(SparkRunnerOptions).spark_master_url
    within = (name == "FlinkRunner" and master in MAGIC_HOST_NAMES) or (
        name == "SparkRunner" and spark.startswith("local")
    )
    return given == "LOOPBACK" or (given is None and within)


def _check_paths(paths: Iterable[str], name: str, shared: bool) -> None:
    for path in paths:
        if "://" in path:
            continue
        if not shared:
            raise UserError(
                f"{path}: is a path on this machine, and {name} has its workers elsewhere; use "
                "shared storage such as s3://, or give --shared_paths if the path is the same on "
                "every worker, as on an NFS mount."
            )
        if not os.path.isabs(path):
            raise UserError(
                f"{path}: is relative to where you are, and workers are elsewhere; give the whole "
                f"path, {os.path.abspath(path)}."
            )


def _check_dependencies(options: PipelineOptions, name: str) -> None:
    """Containers that Beam starts by itself know nothing of this program."""
    portable, setup = options.view_as(PortableOptions), options.view_as(SetupOptions)
    own = name != "DataflowRunner" and portable.environment_type not in (None, "DOCKER")
    image = (
        portable.environment_config
        or portable.environment_options
        or options.view_as(WorkerOptions).sdk_container_image
    )
    if not (own or image or setup.setup_file or setup.extra_packages):
        raise UserError(
            f"--runner={name}: its workers would lack this program; give --setup_file=setup.py, "
            "--sdk_container_image of an image built from launch/flink/Dockerfile.worker, or "
            "another --environment_type."
        )


def _check_endpoint(endpoint: str) -> None:
    host, _, port = endpoint.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UserError(
            f"--job_endpoint={endpoint}: no job server answers there ({error}); start it, or "
            "correct the address, which is HOST:PORT."
        ) from None
