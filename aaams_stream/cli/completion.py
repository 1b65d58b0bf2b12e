"""The command `completion`: what a shell needs to complete commands and options."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

from aaams_stream.cli.export import FORMATS
from aaams_stream.params import shipped

PROGRAM = "aaams-stream"
SHELLS = ("bash", "zsh", "fish")
_BASH = """\
_aaams_stream() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} offered=
  if [ "$COMP_CWORD" -eq 1 ]; then
    offered={commands}
  else
    case "${{COMP_WORDS[1]}} $before" in
{values}
    *)
      case "$current" in
      -*)
        case "${{COMP_WORDS[1]}}" in
{options}
        esac ;;
      esac ;;
    esac
  fi
  COMPREPLY=()
  local word
  for word in $offered; do
    case "$word" in "$current"*) COMPREPLY+=("$word") ;; esac
  done
}}
complete -o default -F _aaams_stream {program}
"""


class Command(NamedTuple):
    """A command as shells complete it."""

    name: str
    help: str
    options: list[tuple[list[str], str, list[str]]]  # names, help, values that may follow


def add_commands(commands: Any) -> None:
    """Add `completion` to the parser."""
    completion = commands.add_parser(
        "completion",
        help="completion of commands and options for a shell",
        description="Print what a shell needs to complete commands and options. bash: put "
        f'eval "$({PROGRAM} completion bash)" into ~/.bashrc; zsh: the same into ~/.zshrc; fish: '
        f"{PROGRAM} completion fish > ~/.config/fish/completions/{PROGRAM}.fish",
    )
    completion.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    completion.set_defaults(run=run_completion)


def run_completion(args: argparse.Namespace) -> int:
    """Print the script of a shell."""
    commands = list(all_commands())
    if args.shell == "fish":
        print(fish_script(commands))
    else:
        if args.shell == "zsh":
            print(
                "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit"
            )
        print(bash_script(commands), end="")
    return 0


def all_commands() -> Iterator[Command]:
    """Yield every command with its options, as the parser has them."""
    from aaams_stream.cli import build_parser

    [subparsers] = [
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    helps = {action.dest: action.help or "" for action in subparsers._choices_actions}
    for name, parser in subparsers.choices.items():
        options = [
            (list(action.option_strings), _plain(action.help), _values(action))
            for action in parser._actions
            if action.option_strings and action.help != argparse.SUPPRESS
        ]
        yield Command(name, helps.get(name, ""), options)


def _values(action: argparse.Action) -> list[str]:
    """Return what may follow an option, where that is one of a few words."""
    known = {"--to": FORMATS, "--config": shipped()}
    for name in action.option_strings:
        if name in known:
            return list(known[name])
    return [str(choice) for choice in action.choices or ()]


def _plain(text: str | None) -> str:
    return (text or "").replace("%(default)s", "…").replace("%%", "%")


def bash_script(commands: list[Command]) -> str:
    """Return the completion of bash; that of zsh understands it too."""
    values = [
        f"    {' | '.join(shlex.quote(f'{command.name} {name}') for name in names)})"
        f" offered={shlex.quote(' '.join(words))} ;;"
        for command in commands
        for names, _, words in command.options
        if words
    ]
    options = [
        f"        {command.name})"
        f" offered={shlex.quote(' '.join(n for names, *_ in command.options for n in names))} ;;"
        for command in commands
    ]
    return _BASH.format(
        program=PROGRAM,
        commands=shlex.quote(" ".join(command.name for command in commands)),
        values="\n".join(values),
        options="\n".join(options),
    )


def fish_script(commands: list[Command]) -> str:
    """Return the completion of fish, which shows what each option is for."""
    lines = []
    for command in commands:
        first = f"complete -c {PROGRAM} -n __fish_use_subcommand -f -a {command.name}"
        lines.append(f"{first} -d {_quoted(command.help)}")
        seen = _quoted(f"__fish_seen_subcommand_from {command.name}")
        for names, told, words in command.options:
            flags = (f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in names)
            line = f"complete -c {PROGRAM} -n {seen} {' '.join(flags)} -d {_quoted(told)}"
            lines.append(f"{line} -x -a {_quoted(' '.join(words))}" if words else line)
    return "\n".join(lines)


def _quoted(text: str) -> str:
    """Quote a text for fish, within whose single quotes both of these are escaped."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
