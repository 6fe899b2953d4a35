"""The guesses as a schema in YAML, with comments that say why."""

import shlex

import numpy as np

from fives_tf.infer.guess import Guess, Label, scalar
from fives_tf.infer.sample import ALL_MISSING, MISSING, Sample
from fives_tf.schema import Format


def render_schema(
    sample: Sample, label: Label, guesses: list[Guess], paths: list[str], files: int
) -> str:
    """Writes the schema as YAML; `paths` are what the user gave, `files` how many they name."""
    of_files = f", the first of {files:,} files" if files > 1 else ""
    log = " ".join(map(shlex.quote, paths[:3])) + (" ..." if paths[3:] else "")
    intro = [
        f"A first schema, guessed from {sample.rows:,} rows of {sample.path}{of_files}.",
        "It is a guess: read it through and correct it. Then run",
        f"  fives preprocess {log} --schema schema.yaml --out dataset",
    ]
    if sample.malformed:
        intro.append(f"Rows with another number of columns in the sample: {sample.malformed:,}.")
    return f"""\
{_comments(intro)}
version: 1

{_render_format(sample.form)}

# The column to predict, and which of its values is a click.
# {label.why}
label:
  column: {scalar(label.column.name)}
  positive: {scalar(label.positive)}
  negative: {scalar(label.negative)}

# Texts that mean that there is no value.
missing: [{", ".join(map(scalar, _missing_markers(guesses)))}]

# Values with fewer rows than min_count, or not among the max_vocab most frequent, share one id.
min_count: 5
max_vocab: 1000000

# Quantities: cut into buckets, one field for each number of buckets.
{_render_columns("numeric", guesses)}

# quantile puts about equally many rows into each bucket. Other kinds: width cuts the range into
# equal parts, log into equal parts of its logarithm, edges at given bounds: edges: [0, 18, 65].
discretize:
  kind: quantile
  buckets: [10, 100]

# Names and codes: one field each.
{_render_columns("categorical", guesses)}

# Columns that are not read.
{_render_columns("drop", guesses)}

{_render_overrides(guesses)}\
# Which rows the network learns on (train), the adjacency tensor (valid), and neither (test).
# Other kinds than random:
#   by: hash      with key: COLUMN; rows of the same value, such as a user, stay together
#   by: position  the last rows are for valid and test; for a log in the order of time
#   by: time      with column, valid_from and test_from
#   by: files     with files: {{train: [PATTERN], valid: [PATTERN], test: [PATTERN]}}
{_render_times(sample)}split:
  by: random
  valid: 0.1
  test: 0.1
  seed: 0
"""


def _render_format(form: Format) -> str:
    lines = [f"format: {form.kind}"]
    if form.kind != "parquet":
        lines += [f"delimiter: {scalar(form.delimiter)}", f"header: {str(form.header).lower()}"]
        lines.append(f"quote: {scalar(form.quote) if form.quote else 'false'}")
    if form.trim:
        lines.append("trim: true  # blanks around values do not count")
    if form.comment:
        lines.append(f"comment: {scalar(form.comment)}  # lines that begin with it are no rows")
    if form.columns:
        lines.append("# The file names no columns: replace these names, here and below.")
        lines += ["columns:", *(f"  - {scalar(name)}" for name in form.columns)]
    return "\n".join(lines)


def _missing_markers(guesses: list[Guess]) -> list[str]:
    found = {""}
    for guess in guesses:
        if guess.kind != "drop":
            markers = MISSING if guess.kind == "numeric" else ALL_MISSING
            found |= set(guess.column.present(())[0]) & set(markers)
    return [marker for marker in ALL_MISSING if marker in found]


def _render_columns(kind: str, guesses: list[Guess]) -> str:
    chosen = [(scalar(g.column.name), g.note) for g in guesses if g.kind == kind]
    if not chosen:
        return f"{kind}: []"
    width = min(max(len(name) for name, _ in chosen), 40)
    return "\n".join([f"{kind}:", *(f"  - {n:{width}}  {_comments([note])}" for n, note in chosen)])


def _render_overrides(guesses: list[Guess]) -> str:
    items = [
        f"  {scalar(guess.column.name)}:\n    hash_buckets: {guess.hash_buckets}\n"
        for guess in guesses
        if guess.hash_buckets
    ]
    if not items:
        return ""
    return f"""\
# Ids without bound: in more than half of the sampled rows they are new. Hashing them into a fixed
# number of ids spares a vocabulary that would never be complete.
overrides:
{"".join(items)}
"""


def _render_times(sample: Sample) -> str:
    lines = []
    for column in (column for column in sample.columns if column.is_time):
        texts, counts = column.present()
        order = np.argsort(texts if np.isnan(column.numbers).any() else column.numbers)
        late = np.searchsorted(np.cumsum(counts[order]), (0.8 * counts.sum(), 0.9 * counts.sum()))
        name, valid, test = map(scalar, (column.name, *texts[order][late]))
        late_test = f", test_from: {test}" if test != valid else ""
        lines += [
            f"{name} looks like a time. A split by it, with bounds that suit the whole log:",
            f"  split: {{by: time, column: {name}, valid_from: {valid}{late_test}}}",
        ]
    return f"{_comments(lines)}\n" if lines else ""


def _comments(lines: list[str]) -> str:
    """YAML comments, one line each, whatever the log holds."""
    return "\n".join(
        "# " + "".join(sign if sign.isprintable() else "?" for sign in line) for line in lines
    )
