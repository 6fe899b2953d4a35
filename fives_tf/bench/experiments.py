"""Runs an experiment from end to end: data, cells, report, files."""

import dataclasses
import importlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fives_tf import storage
from fives_tf.bench import data, facts, table2
from fives_tf.bench.cells import Store
from fives_tf.bench.methods import METHODS
from fives_tf.bench.plots import draw
from fives_tf.bench.render import Report, markdown
from fives_tf.bench.session import Session
from fives_tf.dataset import MANIFEST
from fives_tf.errors import UserError, nearest
from fives_tf.versions import versions

EXPERIMENTS = ("table2", "table3", "ablation", "usefulness", "efficiency")
RUNS, QUICK_RUNS = 10, 2
_NEEDED = ("scipy", "matplotlib")


@dataclass(frozen=True)
class Options:
    """What a benchmark is asked for.

    Attributes:
        experiment: One of EXPERIMENTS.
        datasets: Public data sets by name, and dataset directories.
        data: The directory of the public data sets.
        work: The directory of cells, runs and datasets.
        out: The directory of results.
        quick: Whether to leave tuning out.
        runs: How many runs of each method.
        jobs: How many cells are computed at a time.
        keep_runs: Whether run directories stay.
        given: Settings that differ from those of all methods that have them.
        methods: The rows of table 2 that are asked for; all if there are none.
    """

    experiment: str
    datasets: list[str]
    data: Path
    work: Path
    out: Path
    quick: bool = False
    runs: int = RUNS
    jobs: int = 1
    keep_runs: bool = False
    given: dict[str, Any] = dataclasses.field(default_factory=dict)
    methods: tuple[str, ...] = ()


def check(options: Options) -> None:
    """Refuses what cannot be done, before anything is."""
    name = options.experiment
    if name not in EXPERIMENTS:
        raise UserError(
            f"no experiment `{name}`{nearest(name, EXPERIMENTS)} Known: {', '.join(EXPERIMENTS)}."
        )
    data.check_names(options.datasets)
    for flag in ("runs", "jobs"):
        if getattr(options, flag) < 1:
            raise UserError(f"--{flag}: expected at least 1. Received: {getattr(options, flag)}.")
    if options.methods and name != "table2":
        raise UserError(f"--methods: only table2 has methods to choose from, not {name}.")
    for method in options.methods:
        if method not in table2.ROWS:
            raise UserError(
                f"--methods: no method `{method}`{nearest(method, table2.ROWS)} "
                f"Known: {', '.join(table2.ROWS)}."
            )
    for method in METHODS:
        if not options.methods or method in options.methods:
            METHODS[method].config(options.given)
    for package in _NEEDED:
        why = facts.obstacle(package)
        if why:
            raise UserError(f"{package} is needed and {why}.")
    for flag in ("work", "out"):
        _make_directory(f"--{flag}", getattr(options, flag))


def run(options: Options) -> tuple[Report, dict[str, str]]:
    """Runs an experiment and writes its files; the report, and what failed by cell."""
    check(options)
    with storage.lock(str(options.work / "lock")):
        return _run(options)


def _make_directory(flag: str, path: Path) -> None:
    """Makes a directory; refuses one that cannot be written or is a dataset, and stores."""
    if re.match(r"\w+:/", str(path)):  # of its two slashes `Path` keeps one
        raise UserError(f"{flag}: expected a directory of the disk. Received: {path}.")
    if (path / MANIFEST).exists():
        raise UserError(f"{flag}: {path}: holds a dataset; choose another directory.")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{flag}: {path}: cannot be written ({error.strerror}).") from None


def _run(options: Options) -> tuple[Report, dict[str, str]]:
    seeds = range(options.runs)
    found = data.prepare(options.datasets, seeds, options.data, options.work, options.jobs)
    store = Store(options.work, options.jobs, options.keep_runs)
    session = Session(store, found, not options.quick, options.given, options.methods)
    report = importlib.import_module(f"fives_tf.bench.{options.experiment}").run(session)
    cells = list(store.used.values())
    document = {
        "experiment": options.experiment,
        "seeds": list(seeds),
        "tuned": bool(session.tried),
        "given": options.given,
        **report.figures,
        "chosen": [
            {"dataset": name, "method": method, "settings": settings}
            for (name, method), settings in session.tuned.items()
        ],
        "trials": session.tried,
        **facts.configs_once(cells),
        "failures": store.failures,
        "machine": facts.machine(),
        "versions": facts.all_versions(
            [versions(_NEEDED), *(cell.get("versions", {}) for cell in cells)]
        ),
        "seconds": round(sum(cell["seconds"] for cell in cells), 1),
    }
    _write(options, report, document)
    return report, store.failures


def _write(options: Options, report: Report, document: dict[str, Any]) -> None:
    files = {f"{options.experiment}.json": _json(document)}
    page = markdown(report, _facts(document), document["failures"])
    files[f"{options.experiment}.md"] = page.encode()
    for name, plot in report.plots.items():
        for ending, content in draw(plot).items():
            files[f"{name}.{ending}"] = content
    for name, content in files.items():
        storage.write(str(options.out / name), content)


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def _facts(document: dict[str, Any]) -> list[str]:
    """On what the figures were computed, in words."""
    versions = [f"{name} {' and '.join(found)}" for name, found in document["versions"].items()]
    machine = document["machine"]
    return [
        f"All that was computed for it took {document['seconds']:,.0f} s in sum.",
        f"{machine['cores']} cores, {machine['memory_gibibytes']} GiB, {', '.join(versions)}.",
    ]
