"""Raw columns -> probabilities, by the SavedModel that also serves."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import tensorflow as tf

from fives_tf import storage
from fives_tf.encoding import to_single
from fives_tf.errors import UserError
from fives_tf.exported import Export
from fives_tf.parsing import to_category
from fives_tf.scored_log import PROBABILITY, ROWS_AT_ONCE
from fives_tf.serving.signatures import read_signatures

SIGNATURE = "serving_default"


class Predictor:
    """An exported model that is ready to score.

    Example:
        predictor = Predictor(Export.open("exports"))
        predictor.probability(pa.record_batch({"age": [39.0], "job": ["clerk"]}))  # float32 [1]
    """

    def __init__(self, export: Export, rows_at_once: int = ROWS_AT_ONCE):
        """Loads the model.

        Args:
            export: Where it is.
            rows_at_once: How many rows go through the model at a time.
        """
        try:
            # A copy, as tensorflow-io crashes when it loads a whole model at a store.
            with storage.fetched(export.path) as directory:
                self._model = tf.saved_model.load(directory)  # kept: the signature reads from it
            self._signature = self._model.signatures[SIGNATURE]
        except (OSError, ValueError, KeyError, tf.errors.OpError) as error:
            raise UserError(
                f"{export.path}: cannot be loaded ({_first_line(error)}); export it again."
            ) from None
        self._parameters = _parameters(export.path)
        self._inputs = {column.name: column.numeric for column in export.schema.columns}
        self._rows_at_once = rows_at_once
        known = self._signature.structured_input_signature[1].keys()
        if self._parameters.keys() != self._inputs.keys() or {*self._parameters.values()} != known:
            raise UserError(
                f"{export.path}: the inputs of {SIGNATURE} are not the features of its schema; "
                "export it again."
            )

    def probability(self, batch: pa.RecordBatch) -> np.ndarray:
        """The probability of a click for each row, float32.

        Args:
            batch: Raw columns by name: text for categories, numbers for the numeric ones, null
                where a value is missing. A column that is not there is missing in all rows; other
                columns than the model's are passed over.
        """
        takers = {
            self._parameters[name]: _taker(batch, name, numeric)
            for name, numeric in self._inputs.items()
        }
        result = np.empty(batch.num_rows, np.float32)
        for start in range(0, batch.num_rows, self._rows_at_once):
            rows = slice(start, start + self._rows_at_once)
            inputs = {parameter: take(rows) for parameter, take in takers.items()}
            result[rows] = self._signature(**inputs)[PROBABILITY].numpy()
        return result


def _parameters(path: str) -> dict[str, str]:
    """What the loaded signature calls each column, whose own name may be no name in Python.

    It is the name of the column's placeholder, behind that of the signature.
    """
    inputs = read_signatures(path)[SIGNATURE].inputs
    return {
        column: info.name.removeprefix(f"{SIGNATURE}_").removesuffix(":0")
        for column, info in inputs.items()
    }


def _taker(batch: pa.RecordBatch, name: str, numeric: bool) -> Callable[[slice], tf.Tensor]:
    """What gives the values of a column for some rows."""
    if name not in batch.schema.names:
        absent = tf.zeros([0], tf.float32 if numeric else tf.string)
        return lambda rows: absent
    if numeric:
        numbers = to_single(batch.column(name))
        return lambda rows: tf.constant(numbers[rows])
    coded = to_category(batch.column(name), name)
    # Each distinct text is turned into a tensor once; the rest is done by TensorFlow.
    texts = tf.constant(np.array(coded.dictionary.to_pylist(), object), tf.string)
    codes = coded.indices.to_numpy()
    return lambda rows: tf.gather(texts, codes[rows])


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
