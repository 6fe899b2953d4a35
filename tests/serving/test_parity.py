"""No skew: the SavedModel says of raw rows what the models say on the way that training takes.

The raw tensors are read from the log by Python's own csv module, not by the project's parser. A
model knows the first rows of a log; it is asked about these and about later ones.
"""

import csv
import gzip
import io
import itertools
from pathlib import Path

import numpy as np
import pytest

from fives_tf.schema import Schema
from fives_tf.serving import export
from tests.serving import quick

SCHEMAS = Path(__file__).parents[2] / "fives_tf" / "bench" / "schemas"
FITTED, SCORED = 6_000, 10_000
TOLERANCE = 1e-6

# The files, the rows to score of each, and how to search.
CASES = {
    "employee": ({"employee/train.csv.gz": SCORED}, {"order": 2, "members": 2}),
    "bank": (
        {"bank/bank-additional-full.csv.gz": SCORED},
        {"after": "nothing", "order": 2, "xla": True},
    ),
    "adult": ({"adult/adult.data.gz": 7_000, "adult/adult.test.gz": 3_000}, {"after": "nothing"}),
    "credit": ({"credit/cs-training.csv.gz": SCORED}, {"paper": True, "order": 2}),
    "criteo": ({"criteo/criteo_kaggle_0p3pct.tsv.gz": SCORED}, {"after": "nothing"}),
    "avazu": ({"avazu/avazu_kaggle_small.csv.gz": 9_999}, {"order": 2, "refit": True}),
}
LIGHT = ("bank", "avazu")


class Case:
    """The beginning of a log, as text and as tensors, and a run on the beginning of that."""

    def __init__(self, name: str, data: Path, directory: Path):
        files, settings = CASES[name]
        self.schema = Schema.load(SCHEMAS / f"{name}.yaml")
        self.names = list(self.schema.format.columns)
        self.log, texts, fitted = b"", [], []
        for file, rows in files.items():
            records = self._read(data / file, rows)
            self.log += b"".join(records)
            texts += self._split(records)
            fitted.append(directory / Path(file).with_suffix("").name)
            header = [] if self.schema.format.columns else [self._header]
            fitted[-1].write_bytes(b"".join([*header, *records[: rows * FITTED // SCORED]]))
        self.columns = quick.raw_columns(
            self.schema, dict(zip(self.names, zip(*texts, strict=True), strict=True))
        )
        self.rows = len(texts)
        self.dataset = quick.make_dataset(fitted, self.schema, directory / "dataset")
        self.run = quick.make_run(self.dataset, directory / "run", **settings)
        self.ids = quick.training_ids(self.log, self.names, self.schema, self.dataset)

    def _read(self, path: Path, rows: int) -> list[bytes]:
        with gzip.open(path) as file:
            if not self.schema.format.columns:
                self._header = file.readline()
                [self.names] = self._split([self._header])
            comment = (self.schema.format.comment or "\n").encode()
            wanted = (line for line in file if line.strip(b"\r\n") and not line.startswith(comment))
            return list(itertools.islice(wanted, rows))

    def _split(self, records: list[bytes]) -> list[list[str]]:
        form = self.schema.format
        quoting = {"quotechar": form.quote} if form.quote else {"quoting": csv.QUOTE_NONE}
        text = io.StringIO(b"".join(records).decode(), newline="")
        return list(csv.reader(text, delimiter=form.delimiter, **quoting))


@pytest.fixture(scope="module")
def cases(data_directory, tmp_path_factory):
    """The cases by name; one is held at a time, since its tests follow each other."""
    made: dict[str, Case] = {}

    def get(name: str) -> Case:
        if name not in made:
            made.clear()
            made[name] = Case(name, data_directory, tmp_path_factory.mktemp(name))
        return made[name]

    return get


@pytest.mark.parametrize(
    ("name", "light"),
    [(name, light) for name in CASES for light in (False, True) if not light or name in LIGHT],
)
def test_every_signature_says_what_the_training_path_says(name, light, cases, tmp_path):
    case = cases(name)
    assert case.rows == len(case.ids) >= 9_999
    path = Path(export(case.run, tmp_path, light=light).path)
    expected = quick.TrainingPath(case.run, path, light).scores(case.ids)
    loaded = quick.Loaded(path)

    explained = loaded.run("explain", case.columns)
    answers = {
        "serving_default": loaded.probability("serving_default", case.columns),
        "explain": explained["probability"],
        "examples": loaded.probability("examples", {"inputs": quick.serialized(case.columns)}),
        "ids": loaded.probability("ids", {"ids": case.ids.astype(np.int64)}),
    }
    for signature, probability in answers.items():
        difference = np.abs(probability - expected.probability)
        assert difference.max() <= TOLERANCE, (signature, int(difference.argmax()))
    np.testing.assert_allclose(explained["logits"], expected.logits, rtol=0, atol=2e-5)
    np.testing.assert_array_equal(explained["crosses"], expected.crosses)

    # None of this says much unless rows differ, and some values are missing or unseen.
    assert expected.probability.std() > 1e-3
    local = case.ids - np.array(case.dataset.encoding.offsets)
    assert (local == 1).any()
    assert expected.crosses.max() > 2
