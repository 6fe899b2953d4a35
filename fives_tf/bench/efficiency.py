"""Figure 7: how fast the networks learn, and how long an epoch takes."""

import dataclasses
import statistics
import time
from collections.abc import Sequence
from typing import Any

from fives_tf.bench.cells import Cell, Result
from fives_tf.bench.methods import METHODS
from fives_tf.bench.plots import Panel, Plot
from fives_tf.bench.render import Report, Table
from fives_tf.bench.session import Session, labels
from fives_tf.bench.statistics import Spread
from fives_tf.bench.summary import STARS, Runs, Summary, compare, welch_lines

FIVES = "fives_paper"
ROWS = (FIVES, "dnn", "autoint", "fignn", "wide_deep")
EPOCHS = 3  # after which networks are compared: as many as the paper's search has on Criteo
TURNS = 3  # at least, and as many as there are runs
STEPS = 300  # of a turn, or an epoch if that is shorter
MOST_AUTOINT = 1.5  # times the epoch of AutoInt that FIVES may take
_FACTS = (
    "The runs are those of table2.",
    "For the time of an epoch all networks are built in one process with the settings of their "
    "runs, and train in turns, as many as there are runs, with the rows of the first seed in "
    "memory.",
)


def run(session: Session) -> Report:
    """Follows the runs of the networks, and times their steps in turns."""
    session.tune(ROWS)
    names = labels(ROWS)
    runs = session.run(
        {method: lambda data, method=method: session.cell(method, data) for method in ROWS}
    )
    times = _clocks(session)
    seconds = {name: _epoch_seconds(one) for name, one in times.items()}
    after = [_after_epoch(session, runs, epoch) for epoch in range(1, EPOCHS + 1)]
    took, learned = _summary(seconds, least=True), _summary(after[-1])
    criteria = [one for name, group in seconds.items() for one in _judge(name, group)]
    curves = {
        name: {
            method: mean_curve([one["curve"] for one in runs[method][name].values()])
            for method in ROWS
        }
        for name in session.data
    }
    lines = [f"Seconds of an epoch: {line}" for line in welch_lines(took, names)]
    lines += [f"AUC after epoch {EPOCHS}: {line}" for line in welch_lines(learned, names)]
    lines += [
        f"{one['dataset']}: {one['what']}: {one['value']:.2f}, "
        f"{'reached' if one['reached'] else 'NOT reached'}"
        for one in criteria
    ]
    return Report(
        "Efficiency (figure 7)",
        {
            "summary": [one | {"figure": "seconds"} for one in took]
            + [one | {"figure": f"auc_after_epoch_{EPOCHS}"} for one in learned],
            "curves": curves,
            "times": times,
            "criteria": criteria,
        },
        [_time_table(session, names, took), _curve_table(session, names, runs, after, learned)],
        _plots(names, curves, took),
        lines,
        [*session.facts(), *_FACTS],
    )


def clock(
    directory: str, run: str, seed: int, *, configs: dict[str, Result], repeats: int, steps: int
) -> Result:
    """Times the steps of networks in turns, in one process.

    Args:
        directory: The dataset directory.
        run: Not used.
        seed: The seed.
        configs: The settings of each network.
        repeats: How many turns each has.
        steps: The steps of a turn; those of an epoch if they are fewer.
    """
    import os

    from fives_tf.bench.stepping import Stepping
    from fives_tf.dataset import Dataset
    from fives_tf.training.batches import Source

    load = os.getloadavg()[0]
    memory = min(config["memory"] for config in configs.values())
    source = Source(Dataset.open(directory), memory)  # one for all: the rows are held once
    networks = {name: Stepping(source, config, seed) for name, config in configs.items()}
    count = min(steps, next(iter(networks.values())).epoch)
    for network in networks.values():
        network.step(2)  # compiles
    taken: dict[str, list[float]] = {name: [] for name in networks}
    for _ in range(repeats):
        for name, network in networks.items():
            began = time.perf_counter()
            network.step(count)
            taken[name].append((time.perf_counter() - began) / count)
    return {
        "step_seconds": taken,
        "epoch_steps": {name: network.epoch for name, network in networks.items()},
        "steps_of_a_turn": count,
        "load_before": round(load, 2),
        "configs": configs,
    }


def mean_curve(curves: Sequence[Sequence[Sequence[float]]]) -> list[list[float]]:
    """The mean of several curves of steps and AUCs, point by point, as far as all of them go."""
    return [
        [statistics.mean(column) for column in zip(*points, strict=True)]
        for points in zip(*curves, strict=False)
    ]


def after_epoch(run: Result, rows: int, epoch: int) -> float | None:
    """The AUC at the end of an epoch; None if the run ended before.

    Args:
        run: A run.
        rows: The train rows, of which an epoch leaves out what fills no batch.
        epoch: The epoch, from 1 on.
    """
    last = epoch * (rows // min(run["config"]["batch"], rows))
    curve = run["curve"]
    if not curve or curve[-1][0] < last:
        return None
    return [auc for step, auc in curve if step <= last][-1]


def _after_epoch(session: Session, runs: Runs, epoch: int) -> dict[str, dict[str, list[float]]]:
    """The AUCs of the runs at the end of an epoch; none of a network if one of them ended before.

    Those that are left would be the ones that learn for longer.
    """
    found: dict[str, dict[str, list[float]]] = {}
    for name, every in session.data.items():
        rows = {data.seed: data.rows for data in every}
        for method in ROWS:
            own = runs[method][name]
            aucs = [after_epoch(one, rows[seed], epoch) for seed, one in own.items()]
            found.setdefault(name, {})[method] = [] if None in aucs else aucs
    return found


def _clocks(session: Session) -> dict[str, Result]:
    """The times of each data set, one after the other, with nothing beside."""
    found = {}
    for name, (first, *rest) in session.data.items():
        configs = {method: session.cell(method, first).arguments["config"] for method in ROWS}
        turns = max(1 + len(rest), TURNS)
        arguments = {"configs": configs, "repeats": turns, "steps": STEPS}
        cell = Cell(first, "clock", clock, arguments)
        timed = session.store.fill("clock", [cell], alone=True)
        if cell.name in timed:
            found[name] = timed[cell.name]
    return found


def _epoch_seconds(times: Result) -> dict[str, list[float]]:
    """The seconds of an epoch by each turn."""
    return {
        method: [step * times["epoch_steps"][method] for step in steps]
        for method, steps in times["step_seconds"].items()
    }


def _summary(figures: dict[str, dict[str, list[float]]], least: bool = False) -> Summary:
    """The spread of figures by data set and network, and how FIVES compares with the others."""
    summary = []
    for name, group in figures.items():
        for method, values in group.items():
            if not values:
                continue
            one: dict[str, Any] = {"dataset": name, "method": method}
            one |= {"spread": dataclasses.asdict(Spread.of(values))}
            others = {other: group[other] for other in group if other != method and group[other]}
            if method == FIVES and others:
                one |= compare(values, others, least)
            summary.append(one)
    return summary


def _judge(name: str, seconds: dict[str, list[float]]) -> list[Result]:
    """Whether FIVES is as fast as it is to be."""
    # One turn that something disturbed must not decide.
    median = {method: statistics.median(values) for method, values in seconds.items()}
    by = {other: median[FIVES] / median[other] for other in ("autoint", "fignn")}
    limits = {
        "autoint": (f"at most {MOST_AUTOINT}", by["autoint"] <= MOST_AUTOINT),
        "fignn": ("below 1", by["fignn"] < 1),
    }
    return [
        {
            "dataset": name,
            "what": f"an epoch of FIVES by one of {METHODS[other].label}, {text}",
            "value": by[other],
            "reached": reached,
        }
        for other, (text, reached) in limits.items()
    ]


def _time_table(session: Session, names: dict[str, str], took: Summary) -> Table:
    found = {(one["dataset"], one["method"]): one for one in took}

    def text(name: str, method: str) -> str:
        if (name, method) not in found:
            return "failed"
        one = found[name, method]
        mean, autoint = (found[name, key]["spread"]["mean"] for key in (method, "autoint"))
        deviation = one["spread"]["deviation"]
        return f"{mean:.2f} ± {deviation:.2f}{one.get('stars', '')} ({mean / autoint:.2f})"

    return Table(
        "Seconds of an epoch",
        ("method", *session.data),
        [
            (label, *(text(name, method) for name in session.data))
            for method, label in names.items()
        ],
        "Mean and standard deviation over the turns of one process, in brackets as a multiple of "
        "AutoInt. In a step FIVES learns from a batch of train and one of valid. Stars: faster "
        f"than all others, {STARS}",
    )


def _curve_table(
    session: Session,
    names: dict[str, str],
    runs: Runs,
    after: list[dict[str, dict[str, list[float]]]],
    learned: Summary,
) -> Table:
    won = {(one["dataset"], one["method"]): one.get("stars", "") for one in learned}

    def text(name: str, aucs: list[float], none: str = "-") -> str:
        return f"{Spread.of(aucs)}{session.missing(name, len(aucs))}" if aucs else none

    def row(name: str, method: str) -> list[str]:
        *before, last = (text(name, found[name][method]) for found in after)
        kept = [one["valid"]["auc"] for one in runs[method][name].values()]
        return [*before, f"{last}{won.get((name, method), '')}", text(name, kept, "failed")]

    return Table(
        "Validation AUC by epochs",
        ("data set", "method", *(f"after epoch {one}" for one in range(1, EPOCHS + 1)), "kept"),
        [
            (name, label, *row(name, method))
            for name in session.data
            for method, label in names.items()
        ],
        "Mean and standard deviation over the runs; none where a run ended before. FIVES learns "
        "its edges from these rows, so its figures are too good. Kept: of FIVES what its last "
        "epoch leaves, of the others the best epoch. Stars: better than all others after epoch "
        f"{EPOCHS}, {STARS}",
    )


def _plots(
    names: dict[str, str], curves: dict[str, dict[str, list[list[float]]]], took: Summary
) -> dict[str, Plot]:
    plots = {
        "efficiency-convergence": Plot(
            "lines",
            "Convergence",
            "training steps",
            "AUC on valid",
            [
                Panel(name, {names[method]: curve for method, curve in group.items()})
                for name, group in curves.items()
            ],
        )
    }
    panels = [
        Panel(
            name,
            {
                names[one["method"]]: [(one["spread"]["mean"], one["spread"]["deviation"])]
                for one in took
                if one["dataset"] == name
            },
        )
        for name in dict.fromkeys(one["dataset"] for one in took)
    ]
    if panels:
        plots["efficiency-epochs"] = Plot("bars", "Time of an epoch", "", "seconds", panels)
    return plots
