"""A real server that speaks S3, on loopback, which can be told to fail for a while."""

import random
import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterable
from typing import Any

import boto3
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

KEY, SECRET = "fives-key-id", "fives-very-secret"
_FAULT = "<?xml version='1.0'?><Error><Code>{}</Code><Message>try again</Message></Error>"


class _Quiet(WSGIRequestHandler):
    """Tells nothing of the requests, of which there are thousands."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Leaves out the line of a request."""


class ObjectStore:
    """A server in a thread of its own.

    Attributes:
        url: Where it listens.
        refused: How many requests were answered with a fault.
    """

    def __init__(self):
        self._app = DomainDispatcherApplication(create_backend_app)
        self._rate, self._left, self._random = 0.0, 0, random.Random(1)
        self.refused = 0
        self._lock = threading.Lock()
        self._server = make_server(
            "127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet
        )
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stops the server."""
        self._server.shutdown()

    def environment(self, key: str = KEY, secret: str = SECRET) -> dict[str, str]:
        """The variables by which it is reached."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
        }

    def client(self, service: str = "s3") -> Any:
        """A client of Amazon's own library."""
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="eu-west-1",
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def new_bucket(self) -> str:
        """Makes a bucket, and returns its URL."""
        name = f"bucket-{uuid.uuid4().hex[:8]}"
        where = {"LocationConstraint": "eu-west-1"}
        self.client().create_bucket(Bucket=name, CreateBucketConfiguration=where)
        return f"s3://{name}"

    def fail(self, rate: float, requests: int) -> None:
        """Answers a part of the requests with a fault, until so many have come.

        Args:
            rate: The part.
            requests: How many requests it lasts, those that are answered well included.
        """
        with self._lock:
            self._rate, self._left = rate, requests

    def check_permissions(self, after: float) -> None:
        """Begins to ask for keys and permissions, after so many requests without."""
        body = str(after).encode()
        request = urllib.request.Request(f"{self.url}/moto-api/reset-auth", body)
        request.add_header("Content-Type", "text/plain")  # else the body is taken for a form
        urllib.request.urlopen(request).close()

    def _answer(self, environ: dict[str, Any], start: Callable) -> Iterable[bytes]:
        with self._lock:
            self._left -= 1
            fails = self._left >= 0 and self._random.random() < self._rate
            self.refused += fails
        if not fails:
            return self._app(environ, start)
        # What was sent must be read, or the sender sees a broken connection.
        length = int(environ.get("CONTENT_LENGTH") or 0)
        environ["wsgi.input"].read(length)
        status, code = self._random.choice(
            [("503 Slow Down", "SlowDown"), ("500 Internal Server Error", "InternalError")]
        )
        start(status, [("Content-Type", "application/xml")])
        return [_FAULT.format(code).encode()]
