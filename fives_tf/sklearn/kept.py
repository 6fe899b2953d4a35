"""A finished run as bytes, which can be pickled and from which its models are made again."""

import functools
import os
import tempfile
from dataclasses import dataclass, fields
from typing import Any

from fives_tf import storage
from fives_tf.dataset import Dataset
from fives_tf.encoding import Encoding
from fives_tf.models.fives import FivesModel
from fives_tf.restore import load_models
from fives_tf.run import ADJACENCY, CONFIG, CROSSES, LIGHT, MANIFEST, MEMBERS, Run

_NEEDED = (MANIFEST, CONFIG, ADJACENCY, CROSSES, MEMBERS, LIGHT)


@dataclass(frozen=True, eq=False)
class KeptRun:
    """What models are made of.

    Attributes:
        run_files: The files of the run directory by relative path, without those of its learning.
        encoding_files: The files of the encoding.
        manifest: What `dataset.json` says.
    """

    run_files: dict[str, bytes]
    encoding_files: dict[str, bytes]
    manifest: dict[str, Any]

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, run: Run, dataset: Dataset) -> "KeptRun":
        """Reads the files of a run that is complete."""
        paths = [storage.join(run.directory, name) for name in _NEEDED]
        files = [file for path in paths for file in _files(path)]
        content = {os.path.relpath(file, run.directory): storage.read(file) for file in files}
        return cls(content, dataset.encoding.to_files(), dataset.manifest)

    @functools.cached_property
    def encoding(self) -> Encoding:
        """The encoding that the models take ids of."""
        return Encoding.from_files(self.encoding_files.__getitem__)

    @functools.cached_property
    def models(self) -> list[FivesModel]:
        """The models whose mean is the prediction."""
        with tempfile.TemporaryDirectory() as directory:
            run, dataset = (storage.join(directory, name) for name in ("run", "dataset"))
            for place, files in ((run, self.run_files), (dataset, self.encoding_files)):
                for name, content in files.items():
                    storage.write(storage.join(place, name), content)
            # The rows are not there, and not needed.
            return load_models(Run.open(run), Dataset(dataset, self.manifest), xla=False)


def _files(path: str) -> list[str]:
    """A file, or all files below a directory."""
    if not storage.is_directory(path):
        return [path] if storage.exists(path) else []
    return [file for name in storage.names(path) for file in _files(storage.join(path, name))]
