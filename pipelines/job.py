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
        directory: The dataset directory.
        block_bytes: How much of a compressed file is held in memory at a time.
        progress_path: The progress file, if the workers run on this machine.
    """

    schema: Schema
    splitter: Splitter
    directory: str
    block_bytes: int
    progress_path: str | None

    @property
    def work_directory(self) -> str:
        """Where unfinished work is kept until the dataset is complete."""
        return storage.join(self.directory, "work")
