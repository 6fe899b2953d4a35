"""A report, its tables and figures first as data, then as Markdown and on the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fives_tf.bench.plots import Plot
from fives_tf.tables import print_table


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        title: What it shows.
        header: The names of its columns.
        rows: Its rows.
        note: What one must know to read it.
    """

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    note: str = ""


@dataclass(frozen=True)
class Report:
    """What an experiment found.

    Attributes:
        title: What it is.
        figures: The figures, as JSON has them.
        tables: The tables.
        plots: The plots, by the names of their files.
        lines: Sentences that follow from the figures.
        facts: Sentences on how they came about.
    """

    title: str
    figures: dict[str, Any]
    tables: Sequence[Table] = ()
    plots: dict[str, Plot] = field(default_factory=dict)
    lines: Sequence[str] = ()
    facts: Sequence[str] = ()


def markdown(report: Report, facts: Sequence[str], failures: dict[str, str]) -> str:
    """The report as a page.

    Args:
        report: The report.
        facts: Further sentences on how it was made.
        failures: What went wrong, by the names of the cells.
    """
    parts = [f"# {report.title}"]
    for table in report.tables:
        parts += [f"## {table.title}", _markdown_table(table)]
        if table.note:
            parts.append(table.note)
    parts += [f"![{plot.title}]({name}.svg)" for name, plot in report.plots.items()]
    if report.lines:
        parts.append("\n".join(f"- {line}" for line in report.lines))
    if failures:
        lines = "\n".join(f"- {name}: {message}" for name, message in failures.items())
        parts += ["## What failed", lines]
    parts += ["## How it was made", "\n".join(f"- {fact}" for fact in (*report.facts, *facts))]
    return "\n\n".join(parts) + "\n"


def show(report: Report) -> None:
    """Prints the tables and the sentences."""
    for table in report.tables:
        print(table.title)
        print_table(table.header, table.rows)
    for line in report.lines:
        print(line)


def beside(text: str, paper: float | None, digits: int = 4) -> str:
    """A figure with that of the paper in brackets, if it has one."""
    return text if paper is None else f"{text} ({paper:.{digits}f})"


def _markdown_table(table: Table) -> str:
    lines = [table.header, ("---",) * len(table.header), *table.rows]
    return "\n".join(f"| {' | '.join(map(_escape, line))} |" for line in lines)


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("*", "\\*")
