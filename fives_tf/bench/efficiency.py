"""Figure 7: how fast the networks converge, and how long an epoch takes."""

import statistics
import time
from typing import Any

from fives_tf.bench.cells import Cell, Result
from fives_tf.bench.data import Data
from fives_tf.bench.methods import METHODS, Settings, learning_cell
from fives_tf.bench.plots import Panel, Plot
from fives_tf.bench.render import Report, Table
from fives_tf.bench.session import Session, labels

ROWS = ("fives_paper", "dnn", "autoint", "fignn", "wide_deep")
EPOCHS = 3
POINTS = 8  # evaluations of an epoch
REPEATS = 7  # turns that the networks take
STEPS = 300  # of a turn, or an epoch if that is shorter
MOST_AUTOINT = 1.5  # times the epoch of AutoInt that FIVES may take
_START: Settings = {"dim": 16}
_FACTS = (
    "One training of each network, with seed 0. Each has the settings that it starts from; all "
    f"have embeddings of one size, and learn {EPOCHS} epochs without early stopping. Nothing is "
    "tuned, so that they stand side by side.",
    "AUC is on the validation rows; the test rows are not read.",
)


def run(session: Session) -> Report:
    """Trains the networks alike, and then times their steps in turns."""
    curves: dict[str, dict[str, Any]] = {}
    times: dict[str, Result] = {}
    cells = {
        (name, method): _curve_cell(session, method, first)
        for name, (first, *_) in session.data.items()
        for method in ROWS
    }
    found = session.store.fill("curve", cells.values())
    for (name, method), cell in cells.items():
        if cell.name in found:
            curves.setdefault(name, {})[method] = found[cell.name]["curve"]
    clocks = {name: _clock_cell(session, first) for name, (first, *_) in session.data.items()}
    for name, cell in clocks.items():
        timed = session.store.fill("clock", [cell], alone=True)
        if cell.name in timed:
            times[name] = timed[cell.name]
    names = labels(ROWS)
    epochs = {name: one["epoch_seconds"] for name, one in times.items()}
    criteria = [one for name, group in epochs.items() for one in _judge(name, group)]
    tables = [
        Table(
            "Seconds of an epoch",
            ("method", *session.data),
            [
                (
                    label,
                    *(_seconds(epochs.get(name, {}), method) for name in session.data),
                )
                for method, label in names.items()
            ],
            "The median of turns, in brackets as a multiple of AutoInt. In a step FIVES learns "
            "from a batch of train and one of valid.",
        ),
        Table(
            "Validation AUC by steps",
            ("data set", "method", *(f"after epoch {epoch + 1}" for epoch in range(EPOCHS))),
            [
                (name, names[method], *_at_epochs(curve))
                for name, group in curves.items()
                for method, curve in group.items()
            ],
        ),
    ]
    plots = {}
    if curves:
        panels = [
            Panel(name, {names[method]: curve for method, curve in group.items()})
            for name, group in curves.items()
        ]
        plots["efficiency-convergence"] = Plot(
            "lines", "Convergence", "training steps", "AUC on valid", panels
        )
    if epochs:
        panels = [
            Panel(name, {names[method]: [(seconds, 0.0)] for method, seconds in group.items()})
            for name, group in epochs.items()
        ]
        plots["efficiency-epochs"] = Plot("bars", "Time of an epoch", "", "seconds", panels)
    lines = [
        f"{one['dataset']}: {one['what']}: {one['value']:.2f}, "
        f"{'reached' if one['reached'] else 'NOT reached'}"
        for one in criteria
    ]
    figures = {"curves": curves, "times": times, "criteria": criteria}
    return Report("Efficiency (figure 7)", figures, tables, plots, lines, _FACTS)


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
        "epoch_seconds": {
            name: statistics.median(seconds) * networks[name].epoch
            for name, seconds in taken.items()
        },
        "step_seconds": taken,
        "steps_of_a_turn": count,
        "load_before": round(load, 2),
        "configs": configs,
    }


def _curve_cell(session: Session, method: str, data: Data) -> Cell:
    """A training of so many epochs that looks at valid often, and never at test."""
    fixed: Settings = {
        "epochs": EPOCHS,
        "search_epochs": EPOCHS,
        "patience": EPOCHS * POINTS + 1,
        "refit": False,
        "evaluate_rows": max(1, data.rows // POINTS),
    }
    return learning_cell(method, data, _START | session.given | fixed, test=False)


def _clock_cell(session: Session, data: Data) -> Cell:
    cells = {method: learning_cell(method, data, _START | session.given) for method in ROWS}
    configs = {method: cell.arguments["config"] for method, cell in cells.items()}
    arguments = {"configs": configs, "repeats": REPEATS, "steps": STEPS}
    return Cell(data, "clock", clock, arguments)


def _judge(name: str, seconds: dict[str, float]) -> list[Result]:
    """Whether FIVES is as fast as it is to be."""
    fives = seconds["fives_paper"]
    by = {other: fives / seconds[other] for other in ("autoint", "fignn")}
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


def _seconds(seconds: dict[str, float], method: str) -> str:
    if method not in seconds:
        return "failed"
    return f"{seconds[method]:.2f} ({seconds[method] / seconds['autoint']:.2f})"


def _at_epochs(curve: list[list[float]]) -> list[str]:
    """The AUC at the end of each epoch: the last evaluation up to it."""
    last = curve[-1][0]
    ends = [last * (epoch + 1) / EPOCHS for epoch in range(EPOCHS)]
    return [f"{[auc for step, auc in curve if step <= end + 0.5][-1]:.4f}" for end in ends]
