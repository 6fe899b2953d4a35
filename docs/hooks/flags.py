"""The flags of all commands, written into their page from the parsers of the program itself.

The page holds a line `<!-- flags -->`, where the list goes.
"""

import argparse
import html
from collections.abc import Iterator
from typing import Any

MARK = "<!-- flags -->"
_EVERYWHERE = {"--help", "--helpfull", "--debug"}  # of every verb; the page tells them once
_UNTITLED = ("positional arguments", "options")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Puts the flags where a page asks for them."""
    return markdown.replace(MARK, "\n".join(reference())) if MARK in markdown else markdown


def reference() -> Iterator[str]:
    """The lines of the reference, verb by verb."""
    from fives_tf.cli import make_parser

    for name, parser in _actions(make_parser()):
        yield from _describe(f"fives {name}", parser, 2)


def _describe(command: str, parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    yield from (f"{'#' * level} {command}", "", _text(parser.description), "")
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    yield from ("```", usage.replace("[-h] [--helpfull] ", "").replace(" [--debug]", ""), "```", "")
    for title, arguments in _groups(parser).items():
        yield from (f"| {_text(title)} | |", "|---|---|")
        yield from (f"| {_name(argument)} | {_help(argument)} |" for argument in arguments)
        yield ""
    if parser.formatter_class is argparse.RawDescriptionHelpFormatter:
        yield from ("```", parser.epilog, "```", "")  # its lines are to stay as they are
    elif parser.epilog:
        yield from (_text(parser.epilog), "")
    for name, action in _actions(parser):
        yield from _describe(f"{command} {name}", action, level + 1)


def _groups(parser: argparse.ArgumentParser) -> dict[str, list[argparse.Action]]:
    """The arguments by the title of their group, those without one first."""
    groups: dict[str, list[argparse.Action]] = {}
    for group in parser._action_groups:
        title = "argument" if group.title in _UNTITLED else group.title
        for action in group._group_actions:
            if action.help is argparse.SUPPRESS or _is_menu(action):
                continue  # flags of absl are hidden so
            if not _EVERYWHERE & {*action.option_strings}:
                groups.setdefault(title, []).append(action)
    return groups


def _name(action: argparse.Action) -> str:
    """How an argument is written, with what follows it."""
    if not action.option_strings:
        return f"`{action.metavar or action.dest}`"
    value = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(f"`{option}{value}`" for option in action.option_strings)


def _value(action: argparse.Action) -> str:
    if action.metavar:
        return str(action.metavar)
    if action.choices:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _help(action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": "fives"}
    return _text(text + (" (needed)" if action.required and action.option_strings else ""))


def _text(text: str | None) -> str:
    """Plain text as Markdown within a table; what stands in backticks stays code."""
    parts = (text or "").replace("|", r"\|").split("`")
    parts[::2] = [html.escape(part, quote=False).replace("*", r"\*") for part in parts[::2]]
    return "`".join(parts)


def _actions(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The verbs of the program, or the actions of a verb."""
    for action in parser._actions:
        if _is_menu(action):
            yield from action.choices.items()


def _is_menu(action: argparse.Action) -> bool:
    return isinstance(action, argparse._SubParsersAction)
