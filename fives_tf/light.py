"""The light model: a logistic regression on fields and crosses, for where time is short."""

import io
import json
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np

from fives_tf import storage
from fives_tf.cross_encoding import CrossEncoding
from fives_tf.encoding import Encoding
from fives_tf.errors import UserError
from fives_tf.training.crossing import Crossed

VERSION = 1
MANIFEST = "light.json"
WEIGHTS = "weights.npz"
STAGES = "stages"  # of a learning that is under way


@dataclass(frozen=True, eq=False)
class Light:
    """A light model.

    Attributes:
        crosses: The crosses that have weights beside the fields.
        weights: The weight of each id, those of the crosses after those of the fields.
        bias: The bias.
        evaluation: Its figures on validation, before it also learned from there.
    """

    crosses: CrossEncoding
    weights: np.ndarray
    bias: float
    evaluation: dict[str, Any]

    @classmethod
    def of(cls, crossed: Crossed) -> "Light":
        """The model that a logistic regression on fields and crosses is."""
        learned = crossed.weights
        return cls(crossed.crosses, learned.weights, learned.bias, crossed.evaluation.to_json())

    def save(self, directory: str) -> None:
        """Writes the files; the manifest comes last and makes them count."""
        weights = io.BytesIO()
        np.savez_compressed(weights, weights=self.weights, bias=np.float32(self.bias))
        manifest = {"version": VERSION, "evaluation": self.evaluation}
        files = self.crosses.to_files() | {
            WEIGHTS: weights.getvalue(),
            MANIFEST: json.dumps(manifest, indent=1).encode(),
        }
        for name, content in files.items():
            storage.write(storage.join(directory, name), content)

    @classmethod
    def load(cls, directory: str, encoding: Encoding) -> "Light | None":
        """Reads what `save` wrote; None if there is nothing, or nothing complete."""
        if not storage.exists(storage.join(directory, MANIFEST)):
            return None

        def read(name: str) -> bytes:
            return storage.read(storage.join(directory, name))

        try:
            manifest = json.loads(read(MANIFEST))
            version = manifest["version"]
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(storage.join(directory, MANIFEST), error) from None
        if version != VERSION:
            raise UserError(
                f"{directory}: version {version} is not known to this program, which "
                f"reads version {VERSION}. Search again with --overwrite."
            )
        crosses = CrossEncoding.from_files(read, encoding)
        try:
            with np.load(io.BytesIO(read(WEIGHTS)), allow_pickle=False) as arrays:
                weights, bias = arrays["weights"], float(arrays["bias"])
            if weights.shape != (encoding.size + crosses.size,):
                raise ValueError(f"{len(weights):,} weights")
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise _damaged(storage.join(directory, WEIGHTS), error) from None
        return cls(crosses, weights, bias, manifest["evaluation"])


def _damaged(path: str, error: Exception) -> UserError:
    return UserError(f"{path}: is damaged ({error}); copy the run again, or search again.")
