"""The command reference, from argparse."""

from __future__ import annotations

import argparse
import os
import re
from unittest import mock

from aaams_stream.cli import build_parser

_EXIT = """## Exit codes

| code | means |
|---|---|
| 0 | done |
| 2 | something you can fix, said in one line on standard error that begins with `error:` |
| 130, 143, 129 | ended by Ctrl-C, SIGTERM or SIGHUP; what is written stays valid, to `--resume` |
| 141 | nobody reads the output on, as in `aaams-stream info clip.zarr \\| head -1` |
"""


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, in the order `--help` lists them."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def page() -> str:
    """Return the page: a section per command, a table per group of options."""
    # one width for all machines
    with mock.patch.dict(os.environ, {"COLUMNS": "84", "NO_COLOR": "1"}):
        parser = build_parser()
        parts = ["# Commands", _opening(parser)]
        for name, command in subcommands(parser).items():
            parts.append(f"({name}-command)=\n## {name}")
            if command.description:
                parts.append(_text(command.description))
            usage = command.format_usage().removeprefix("usage: ").rstrip()
            usage = re.sub(r"\n +", "\n    ", usage)
            parts.append(f"```text\n{usage}\n```")
            parts += [_group(group) for group in command._action_groups]
            if command.epilog:
                parts.append(_text(command.epilog))
    return "\n\n".join(part for part in [*parts, _EXIT] if part)


def _opening(parser: argparse.ArgumentParser) -> str:
    names = ", ".join(f"[`{name}`](#{name}-command)" for name in subcommands(parser))
    return f"`aaams-stream COMMAND …`; `--help` after any of them tells the same as here. {names}."


def _group(group: argparse._ArgumentGroup) -> str:
    rows = []
    actions = list(group._group_actions)
    for action in actions:
        if isinstance(action, argparse._HelpAction) or action.help is argparse.SUPPRESS:
            continue
        rows.append(f"| {_name(action)} | {_help(action)} |")
    if not rows:
        return ""
    title = (group.title or "").capitalize()
    return "\n".join([f"| {title} | what it is |", "|---|---|", *rows])


def _name(action: argparse.Action) -> str:
    shown = action.metavar if isinstance(action.metavar, str) else None
    if not action.option_strings:
        return f"`{shown or action.dest}`"
    value = ""
    if action.nargs != 0:
        choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices else None
        value = " " + (shown or choices or action.dest.upper())
    return ", ".join(f"`{option}{value}`" for option in action.option_strings).replace("|", "\\|")


def _help(action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": "aaams-stream"}
    return _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    """Return argparse's plain text as Markdown that reads the same."""
    for character in "\\*_<>[]$":
        text = text.replace(character, "\\" + character)
    return text.replace("--", "\\-\\-")
