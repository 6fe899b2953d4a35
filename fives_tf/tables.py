"""Tables for people: fitted to the terminal, plain and whole when piped."""

import sys
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints rows of text below a header; numbers are set flush right."""
    rows = [tuple(_printable(cell) for cell in row) for row in rows]
    if not sys.stdout.isatty():
        for row in (header, *rows):
            print("\t".join(row))
        print()
        return
    table = Table(box=box.SIMPLE_HEAD)
    for index, name in enumerate(header):
        right = all(row[index][:1].isdigit() for row in rows)
        table.add_column(name, justify="right" if right else "left", overflow="ellipsis")
    for row in rows:
        table.add_row(*row)
    # Values come from the log; none of them may be taken for markup.
    Console(markup=False, highlight=False, emoji=False).print(table)


def _printable(text: str) -> str:
    """Control characters in a value must not reach the terminal."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
