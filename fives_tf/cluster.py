"""Who takes part in a training of several processes, as TensorFlow's TF_CONFIG tells it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from fives_tf.errors import UserError

VARIABLE = "TF_CONFIG"


@dataclass(frozen=True)
class Cluster:
    """The workers as `host:port`, and which of them this process is."""

    workers: tuple[str, ...]
    index: int

    @property
    def is_chief(self) -> bool:
        """Whether this process does what only one may do."""
        return self.index == 0


def read(environ: Mapping[str, str]) -> Cluster | None:
    """Reads TF_CONFIG; None if it is not set."""
    text = environ.get(VARIABLE, "")
    if not text.strip():
        return None
    try:
        config = json.loads(text)
        workers, task = config["cluster"]["worker"], config["task"]
        kind, index = task["type"], int(task["index"])
    except (ValueError, KeyError, TypeError):
        raise _unexpected_config(text) from None
    named = isinstance(workers, list) and all(isinstance(worker, str) for worker in workers)
    if not named or kind != "worker" or not 0 <= index < len(workers):
        raise _unexpected_config(text)
    return Cluster(tuple(workers), index)


def _unexpected_config(text: str) -> UserError:
    return UserError(
        f'{VARIABLE}: expected {{"cluster": {{"worker": ["host:port", ...]}}, "task": {{"type": '
        f'"worker", "index": 0}}}} with an index below the number of workers. Received: {text!r}. '
        "Correct the environment variable, or unset it to train on one machine."
    )
