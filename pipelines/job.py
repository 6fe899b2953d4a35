"""What the workers of both passes must know."""

from dataclasses import dataclass

from fives_tf import storage
from fives_tf.schema import Schema
from fives_tf.splitting import Splitter


@dataclass(frozen=True)
class Job:
    """One run of the preprocessing.

    Attributes:
        schema: What the columns mean.
        splitter: Which rows go where.
        work: The directory for what this run has done so far.
        block_bytes: How much of a compressed file is held in memory at a time.
        progress_path: The progress file, if the workers run on this machine.
    """

    schema: Schema
    splitter: Splitter
    work: str
    block_bytes: int
    progress_path: str | None

    @property
    def staging(self) -> str:
        """The files of the dataset, which move to their places when all are there."""
        return storage.join(self.work, "dataset")
