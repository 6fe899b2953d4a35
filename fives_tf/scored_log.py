"""A log whose rows are only scored: which columns it must have, and what is made of them.

Needs neither TensorFlow nor Arrow, so that the flags of `fives predict` can tell its defaults.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fives_tf.errors import UserError, nearest

PROBABILITY = "probability"  # the output of a model, and the column of the predictions
ROWS_AT_ONCE = 4096  # that go through the model


@dataclass(frozen=True)
class Scoring:
    """How a log is read whose rows are only scored.

    Attributes:
        keep: The columns that are kept beside the scores, as they are read from the log.
        allow_missing: Whether the column of a feature may be absent, and so missing in all rows.
    """

    keep: tuple[str, ...] = ()
    allow_missing: bool = False

    def check_columns(self, features: Sequence[str], present: Sequence[str], file: str) -> None:
        """Refuses a file without a column that is to be kept, or that the model reads.

        Args:
            features: The columns that the model reads.
            present: The columns of the file.
            file: Its name.
        """
        shown = f"Its columns: {', '.join(present)}."
        for name in self.keep:
            if name not in present:
                raise UserError(
                    f"{file}: has no column `{name}` to keep{nearest(name, present)} {shown}"
                )
        absent = [name for name in features if name not in present]
        if len(absent) == len(features):
            raise UserError(f"{file}: has none of the columns that the model reads. {shown}")
        if absent and not self.allow_missing:
            raise UserError(
                f"{file}: has no column `{absent[0]}`, which the model reads"
                f"{nearest(absent[0], present)} Give --allow_missing_columns to take it as missing "
                f"in all rows. {shown}"
            )
