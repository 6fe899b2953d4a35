"""From the runs of an experiment to means, deviations and tests."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from fives_tf.bench.cells import Result
from fives_tf.bench.statistics import Spread, stars, welch

Runs = dict[str, dict[str, dict[int, Result]]]
"""The results of the runs that did not fail, by row, data set and seed."""

Summary = list[dict[str, Any]]
"""What is known of each row on each data set."""

STARS = "by Welch's t-test, \\*\\* p < 0.01, \\* p < 0.05."
"""What stars in a table mean."""


def on_test(runs: dict[int, Result], metric: str = "auc") -> list[float]:
    """A figure on test of several runs."""
    return [run["test"][metric] for run in runs.values()]


def summarize(runs: Runs, tests: Mapping[str, Iterable[str]]) -> Summary:
    """The spread of each row on each data set, and whether some are better than others.

    A row is tested against each of its others, and has stars if it is better than the one of the
    highest mean.

    Args:
        runs: The runs.
        tests: For each row that is tested, its others.
    """
    summary = []
    for name in next(iter(runs.values()), {}):
        figures = {row: on_test(found[name]) for row, found in runs.items() if found[name]}
        for row, values in figures.items():
            losses = on_test(runs[row][name], "log_loss")
            one = {
                "dataset": name,
                "method": row,
                "auc": dataclasses.asdict(Spread.of(values)),
                "log_loss": dataclasses.asdict(Spread.of(losses)),
            }
            others = {other: figures[other] for other in tests.get(row, ()) if other in figures}
            summary.append(one | _tested(values, others) if others else one)
    return summary


def _tested(values: list[float], others: dict[str, list[float]]) -> dict[str, Any]:
    """How a row compares with others."""
    means = {row: Spread.of(figures).mean for row, figures in others.items()}
    strongest = max(means, key=means.get)
    p_values = {row: welch(values, figures) for row, figures in others.items()}
    p = p_values[strongest]
    better = Spread.of(values).mean > means[strongest]
    return {
        "against": strongest,
        "p": p,
        "stars": stars(p) if better else "",
        "p_values": p_values,
    }


def welch_lines(summary: Summary, names: dict[str, str]) -> list[str]:
    """What the tests say, a line for each row and data set.

    Args:
        summary: The summary.
        names: The names of the rows in tables.
    """
    lines = []
    for one in summary:
        if "against" in one:
            # The strongest comes first.
            p_values = {one["against"]: one["p"]} | one["p_values"]
            found = [f"{names[row]} {_p_value(p)}" for row, p in p_values.items()]
            lines.append(
                f"{one['dataset']}: {names[one['method']]} against the strongest other, "
                f"{'; '.join(found)}"
            )
    return lines


def _p_value(p: float | None) -> str:
    return "not tested" if p is None else f"p = {p:.2g}"
