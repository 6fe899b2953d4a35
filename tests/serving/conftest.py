"""What the tests of serving share."""

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.serving import odd, tiny
from tests.serving.server import TestServer


@dataclass(frozen=True)
class Addresses:
    """Where a server is."""

    grpc_address: str
    rest_address: str


@pytest.fixture(scope="session")
def serving() -> Iterator[Callable[[Path], Addresses]]:
    """Serves a directory of exports as the model `fives`, and tells where.

    The server is TestServer. If TF_SERVING_ADDRESS (HOST:PORT of gRPC) and TF_SERVING_REST
    (http://HOST:PORT) are set it is that one, which must serve the same exports.
    """
    servers: dict[Path, Addresses] = {}
    with contextlib.ExitStack() as stack:

        def serve(exports: Path) -> Addresses:
            if "TF_SERVING_ADDRESS" in os.environ:
                return Addresses(os.environ["TF_SERVING_ADDRESS"], os.environ["TF_SERVING_REST"])
            if exports not in servers:
                server = stack.enter_context(TestServer(exports))
                versions = [int(path.name) for path in exports.iterdir() if path.name.isdigit()]
                server.wait_for(max(versions))
                servers[exports] = Addresses(server.grpc_address, server.rest_address)
            return servers[exports]

        yield serve


@pytest.fixture(scope="session")
def tiny_server(tmp_path_factory) -> Iterator[TestServer]:
    """A server of the tiny model, as version 3."""
    directory = tmp_path_factory.mktemp("tiny")
    tiny.write(directory / "3")
    with TestServer(directory) as server:
        server.wait_for(3)
        yield server


@pytest.fixture(scope="session")
def log(tmp_path_factory) -> odd.Odd:
    """A log with odd names, its run and its exports."""
    return odd.make(tmp_path_factory.mktemp("odd"))


@pytest.fixture(params=["fives", "light"])
def model(request, log) -> Path:
    """An exported version."""
    return log.exports[request.param] / "1"
