"""What `pip install fives-tf` and its extras bring suffices, without the tools of development."""

import importlib.metadata
import os
import subprocess
import sys

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# Python runs it at its start, in every process. Modules that were not asked for are as if they
# were not installed.
HIDE = """
import sys

HIDDEN = {hidden!r}

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""
FIVES = "-m fives_tf.cli"
TASKS = {
    "": (
        f"{FIVES} preprocess {{log}}/log.csv --schema {{log}}/schema.yaml --out dataset",
        f"{FIVES} fit dataset --run run --model lr --lr_epochs 1",
        f"{FIVES} export run --to exports",
        f"{FIVES} predict exports --input {{log}}/log.csv --output scores.parquet",
    ),
    "bench": (
        f"{FIVES} bench table2 --datasets {{dataset}} --quick --runs 1 --set=lr_epochs=1 "
        "--methods lr,lightgbm",
    ),
    "sklearn": ("classify.py {log}/log.csv",),
}
CLASSIFY = """
import sys

import pyarrow.csv

from fives_tf.sklearn import FivesClassifier

if __name__ == "__main__":
    table = pyarrow.csv.read_csv(sys.argv[1]).slice(0, 500)
    rows = table.drop_columns("click")
    quick = FivesClassifier(settings={"search_epochs": 1, "epochs": 1})
    quick.fit(rows, table["click"]).predict_proba(rows)
"""


def brought(extra: str) -> set[str]:
    """The packages that an installation brings, with all that these need.

    Those that are not here, as the tests have no use for them, are brought by none.
    """
    found, left = set(), [("fives-tf", ""), ("fives-tf", extra)]
    while left:
        one = left.pop()
        if one in found:
            continue
        found.add(one)
        name, extra = one
        try:
            lines = importlib.metadata.requires(name) or ()
        except importlib.metadata.PackageNotFoundError:
            continue
        for needed in map(Requirement, lines):
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                wanted = canonicalize_name(needed.name)
                left += [(wanted, further) for further in ("", *needed.extras)]
    return {name for name, _ in found}


@pytest.mark.slow
@pytest.mark.parametrize("extra", TASKS)
def test_an_installation_brings_what_its_tasks_need(extra, small_log, small_dataset, tmp_path):
    kept = brought(extra)
    hidden = {
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if not kept & {canonicalize_name(package) for package in packages}
    }
    assert {"pytest", "duckdb"} < hidden
    (tmp_path / "sitecustomize.py").write_text(HIDE.format(hidden=hidden))
    (tmp_path / "classify.py").write_text(CLASSIFY)
    for task in TASKS[extra]:
        words = task.format(log=small_log, dataset=small_dataset).split()
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert "not installed" not in done.stdout + done.stderr
