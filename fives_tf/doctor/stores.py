"""Object storage: how the environment is set up for it, and a trial."""

import os
import re
import socket
import time
import urllib.parse
import uuid
from collections.abc import Mapping
from pathlib import Path

from fives_tf import storage
from fives_tf.doctor.finding import MISSING, OK, WARNING, Finding
from fives_tf.doctor.processes import call_each
from fives_tf.errors import UserError
from fives_tf.storage.settings import S3Settings

TRIAL_SECONDS = 60.0
CONNECT_SECONDS = 3.0
_PORTS = {"http": 80, "https": 443}
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_SECRETS = (*_KEYS, "AWS_SESSION_TOKEN")
_OTHER_CREDENTIALS = (
    "AWS_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def s3_endpoint(environment: Mapping[str, str]) -> Finding:
    """Where `s3://` leads, and whether someone listens there; Amazon is not asked unprompted."""
    what, use = "S3 endpoint", "paths that begin with s3://"
    remedy = "set AWS_ENDPOINT_URL to the URL of the store; docs/storage.md tells the variables"
    try:
        settings = S3Settings.read(environment)
    except UserError as error:
        return Finding(what, WARNING, str(error), use, remedy)
    if settings.ca_file and not os.path.isfile(settings.ca_file):
        found = f"{settings.ca_file}, the file of certificates, is not there"
        return Finding(what, WARNING, found, use, "correct AWS_CA_BUNDLE or S3_CA_FILE")
    if settings.endpoint is None:
        found = f"none is set, so Amazon S3 in {settings.region}; not asked"
        return Finding(what, OK, found, use)
    try:
        url = urllib.parse.urlsplit(settings.endpoint)
        port = url.port or _PORTS.get(url.scheme)
    except ValueError:
        port = None
    if not port or not url.hostname:
        return Finding(what, WARNING, f"{settings.endpoint}: is no URL of a store", use, remedy)
    try:
        socket.create_connection((url.hostname, port), CONNECT_SECONDS).close()
    except OSError as error:
        found = f"{settings.endpoint}: cannot be reached ({error.strerror or error})"
        return Finding(what, WARNING, found, use, "check AWS_ENDPOINT_URL and the network")
    return Finding(what, OK, f"{settings.endpoint}: accepts connections", use)


def s3_credentials(environment: Mapping[str, str]) -> Finding:
    """By which settings credentials are found; never what they are."""
    what, use = "S3 credentials", "paths that begin with s3://"
    remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
    keys = [name for name in _KEYS if environment.get(name)]
    if len(keys) == 1:
        return Finding(what, WARNING, f"{keys[0]} is set, but not the other key", use, remedy)
    names = keys or [name for name in _OTHER_CREDENTIALS if environment.get(name)]
    if names:
        found = f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} set"
        return Finding(what, OK, found, use)
    file = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials")
    if file.expanduser().is_file():
        return Finding(what, OK, f"in {file}", use)
    found = f"neither in the environment nor in {file}; an instance's role may have some"
    return Finding(what, WARNING, found, use, remedy)


def trial(url: str) -> Finding:
    """Tries to list, write, read back and remove at a store."""
    use = "what was asked for by --storage"
    [answer] = call_each(use_store, [url], TRIAL_SECONDS)
    if answer.problem:
        remedy = "correct the settings that docs/storage.md tells, or ask for permission there"
        return Finding(url, MISSING, answer.problem, use, remedy)
    return Finding(url, OK, answer.value, use)


def use_store(url: str) -> str:
    """Lists a directory of a store, and writes, reads and removes a small file there.

    Returns:
        What was done.
    """
    began = time.monotonic()
    path, content = storage.join(url, f"fives-doctor-{uuid.uuid4().hex}"), os.urandom(64)
    storage.names(url)
    storage.write(path, content)
    try:
        if storage.read(path) != content:
            raise UserError(f"{path}: what is read is not what was written.")
    finally:
        storage.remove(path)
    if storage.exists(path):
        raise UserError(f"{path}: is still there after it was removed.")
    seconds = time.monotonic() - began
    return f"listed, wrote, read back and removed a small file in {seconds:.1f} s"


def without_secrets(text: str, environment: Mapping[str, str]) -> str:
    """A text in which no credentials stand, neither those of the environment nor those of a URL."""
    for name in _SECRETS:
        if environment.get(name):
            text = text.replace(environment[name], "***")
    return re.sub(r"://[^/\s@]*@", "://***@", text)
