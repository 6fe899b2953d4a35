"""Keeps the latest version of a model loaded, by looking at a directory over and over."""

import re
import threading
from dataclasses import dataclass
from pathlib import Path

import grpc
import tensorflow as tf

from tests.serving.servables import Servable, StatusError, status_error


@dataclass(frozen=True)
class State:
    """The state of a version, as in ModelVersionStatus, and its error."""

    name: str
    code: grpc.StatusCode = grpc.StatusCode.OK
    message: str = ""


class Versions:
    """What of a directory is loaded.

    The next version is loaded and warm before the last one is let go; requests that run keep the
    one they began with. A version that cannot be loaded is not tried again while it is there; one
    without saved_model.pb is, which stands for the retries of TensorFlow Serving.
    """

    def __init__(self, name: str, directory: Path, poll_seconds: float):
        self.name = name
        self._directory, self._poll_seconds = directory, poll_seconds
        self._servable: Servable | None = None
        self._states: dict[int, State] = {}
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_polling, name="versions", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._servable = None

    def states(self) -> dict[int, State]:
        """All versions that were ever tried."""
        with self._changed:
            return dict(self._states)

    def servable(self, name: str, version: int | None) -> Servable:
        """What answers a request."""
        found = self._servable
        if found is None or name != self.name or version not in (None, found.version):
            wanted = f"Latest({name})" if version is None else f"Specific({name}, {version})"
            message = f"Servable not found for request: {wanted}"
            raise StatusError(grpc.StatusCode.NOT_FOUND, message)
        return found

    def wait_for(self, version: int, seconds: float, state: str) -> State:
        """Waits until a version is in a state; not for one that has failed to load."""

        def settled() -> bool:
            found = self._states.get(version)
            return found is not None and (found.name == state or found.code != State("").code)

        with self._changed:
            self._changed.wait_for(settled, seconds)
            found = self._states.get(version)
        if found is None or found.name != state:
            raise TimeoutError(f"expected version {version} to be {state}; it is {found}")
        return found

    def _keep_polling(self) -> None:
        while not self._stop.is_set():
            self._poll()
            self._stop.wait(self._poll_seconds)

    def _poll(self) -> None:
        if not self._directory.is_dir():
            return
        there = {
            int(path.name): path
            for path in self._directory.iterdir()
            if re.fullmatch("[0-9]+", path.name) and path.is_dir()
        }
        for version, state in self.states().items():
            if version not in there and state.code != grpc.StatusCode.OK:
                self._set(version, State("END"))
        current = self._servable
        latest = max(there, default=None)
        if current and latest == current.version:
            return
        if latest is not None and not self._load(latest, there[latest]):
            return
        if current:
            if latest is None:
                self._servable = None
            self._set(current.version, State("END"))

    def _load(self, version: int, directory: Path) -> bool:
        if self.states().get(version, State("START")).code != grpc.StatusCode.OK:
            return False
        self._set(version, State("LOADING"))
        if not (directory / "saved_model.pb").exists():
            return False
        try:
            self._servable = Servable(self.name, version, directory)
        except Exception as error:
            self._set(version, _failure(error))
            return False
        self._set(version, State("AVAILABLE"))
        return True

    def _set(self, version: int, state: State) -> None:
        with self._changed:
            self._states[version] = state
            self._changed.notify_all()


def _failure(error: Exception) -> State:
    if isinstance(error, tf.errors.OpError):
        error = status_error(error)
    code = error.code if isinstance(error, StatusError) else grpc.StatusCode.UNKNOWN
    return State("END", code, str(error))
