"""A first schema, guessed from the beginning of a log and written down with the reasons."""

from collections.abc import Iterable

from fives_tf import storage
from fives_tf.errors import UserError
from fives_tf.infer.guess import choose_label, guess_column
from fives_tf.infer.render import render_schema
from fives_tf.infer.sample import read_sample
from fives_tf.schema import Schema


def infer_schema(paths: Iterable[str], label: str | None = None, sample_rows: int = 100_000) -> str:
    """Guesses the schema of a log from the first rows of its first file.

    Args:
        paths: Files or patterns, as `fives preprocess` takes them.
        label: The label column; guessed from names and values if it is not given.
        sample_rows: How many rows to look at; never more than about 64 MB.

    Returns:
        YAML text with comments, which `fives_tf.schema.Schema.parse` reads.
    """
    paths = list(paths)
    if sample_rows < 1:
        raise UserError(f"--sample_rows: expected at least 1. Received: {sample_rows}.")
    files = storage.find(paths)
    sample = read_sample(files[0].path, sample_rows)
    chosen = choose_label(sample, label)
    guesses = [guess_column(column) for column in sample.columns if column is not chosen.column]
    if all(guess.kind == "drop" for guess in guesses):
        raise UserError(f"{sample.path}: no column but the label says anything; is it a log?")
    text = render_schema(sample, chosen, guesses, paths, len(files))
    Schema.parse(text, f"the schema inferred from {sample.path}")
    return text
