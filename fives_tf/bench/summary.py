"""From the runs of an experiment to means, deviations and tests, and what shows them."""

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from fives_tf.bench.cells import Result
from fives_tf.bench.plots import Panel, Plot
from fives_tf.bench.render import Table
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
    highest mean. Seed by seed it is compared with all rows.

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
            if row in tests:
                one["by_seed"] = {
                    other: compared
                    for other in figures
                    if other != row and (compared := _by_seed(runs[row][name], runs[other][name]))
                }
                others = {other: figures[other] for other in tests[row] if other in figures}
                one |= compare(values, others) if others else {}
            summary.append(one)
    return summary


def compare(
    values: list[float], others: Mapping[str, list[float]], least: bool = False
) -> dict[str, Any]:
    """How a row compares with others by Welch's t-test, with stars if it is the best.

    Args:
        values: Its figures.
        others: Those of each other, one at least.
        least: Whether the least mean is the best, not the highest.
    """
    sign = -1 if least else 1
    means = {row: sign * Spread.of(figures).mean for row, figures in others.items()}
    strongest = max(means, key=means.get)
    mean = sign * Spread.of(values).mean
    p_values = {row: welch(values, figures) for row, figures in others.items()}
    p = p_values[strongest]
    return {
        "against": strongest,
        "p": p,
        "stars": stars(p) if mean > means[strongest] else "",
        "differences": {row: sign * (mean - other) for row, other in means.items()},
        "p_values": p_values,
    }


def seed_tables(
    summary: Summary, names: Mapping[str, str], datasets: Collection[str]
) -> list[Table]:
    """For each row that is tested, by how much it is above all others seed by seed.

    Args:
        summary: The summary.
        names: The names of the rows in tables.
        datasets: The names of the data sets.
    """
    found = {(one["method"], one["dataset"]): one.get("by_seed", {}) for one in summary}
    tested = [row for row in names if any(found.get((row, name)) for name in datasets)]
    return [
        Table(
            f"{names[row]} less each other, seed by seed",
            ("less", *datasets),
            [
                (label, *(_difference(found.get((row, name), {}).get(other)) for name in datasets))
                for other, label in names.items()
                if other != row
            ],
            "Differences in test AUC of the runs with the same seed: mean and standard deviation, "
            "and with how many seeds it is above 0. What the draw of the rows does to both drops "
            "out.",
        )
        for row in tested
    ]


def welch_lines(summary: Summary, names: dict[str, str]) -> list[str]:
    """By how much rows are above others, and what the tests say, a line for each and data set.

    Args:
        summary: The summary.
        names: The names of the rows in tables.
    """
    lines = []
    for one in summary:
        if "against" in one:
            # The strongest comes first.
            p_values = {one["against"]: one["p"]} | one["p_values"]
            found = [
                f"{names[row]} {one['differences'][row]:+.4f} ({_p_value(p)})"
                for row, p in p_values.items()
            ]
            lines.append(
                f"{one['dataset']}: {names[one['method']]} less the strongest other, "
                f"{'; '.join(found)}"
            )
    return lines


def bar_plot(title: str, labels: dict[str, str], runs: Runs) -> Plot:
    """The test AUC of each row as a bar, a panel for each data set.

    Args:
        title: What it shows.
        labels: The names of the rows, in order.
        runs: The runs.
    """
    panels = []
    for name in next(iter(runs.values())):
        series = {}
        for row, label in labels.items():
            values = on_test(runs[row][name])
            spread = Spread.of(values) if values else None
            series[label] = [(spread.mean, spread.deviation)] if spread else []
        panels.append(Panel(name, series))
    return Plot("cut_bars", title, "", "test AUC", panels)


def _difference(compared: dict[str, Any] | None) -> str:
    if compared is None:
        return "-"
    spread = Spread(**compared["difference"])
    return f"{spread.told('+.4f')} ({compared['ahead']} of {spread.runs})"


def _by_seed(runs: dict[int, Result], others: dict[int, Result]) -> dict[str, Any] | None:
    """How a row compares with another over the seeds of both; None if there are none."""
    pairs = [(runs[seed], others[seed]) for seed in sorted(runs.keys() & others.keys())]
    if not pairs:
        return None
    differences = [one["test"]["auc"] - other["test"]["auc"] for one, other in pairs]
    return {
        "difference": dataclasses.asdict(Spread.of(differences)),
        "ahead": sum(difference > 0 for difference in differences),
    }


def _p_value(p: float | None) -> str:
    return "not tested" if p is None else f"p = {p:.2g}"
