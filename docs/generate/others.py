"""Public names that no section of the Python reference names: none is left out of it."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import aaams_stream

ROOMS = ("export", "metrics", "live")  # whose __all__ is public, beside that of the package
_REFERENCE = Path(__file__).resolve().parent.parent / "reference" / "api.md"


def public() -> list[str]:
    """Return every public name, in full."""
    found = [f"aaams_stream.{name}" for name in aaams_stream.__all__ if name != "__version__"]
    for room in ROOMS:
        names = importlib.import_module(f"aaams_stream.{room}").__all__
        found += [f"aaams_stream.{room}.{name}" for name in names]
    return found


def documented() -> list[str]:
    """Return the names that have a place in the sections of the reference."""
    text = _REFERENCE.read_text(encoding="utf-8")
    return re.findall(r"^\.\. (?:auto\w+|py:data):: (aaams_stream\.\S+)$", text, re.MULTILINE)


def directive(name: str) -> str:
    """Return what has Sphinx read the docstring of a public name."""
    room, _, last = name.rpartition(".")
    found = getattr(importlib.import_module(room), last)
    if inspect.isclass(found):
        return f".. autoclass:: {name}\n   :members:"
    if inspect.isfunction(found):
        return f".. autofunction:: {name}"
    return f".. py:data:: {name}"


def page() -> str:
    """Return a section of the names without a place; empty where there are none."""
    left = sorted(set(public()) - set(documented()))
    if not left:
        return ""
    lines = "\n".join(directive(name) for name in left)
    return f"## Others\n\n```{{eval-rst}}\n{lines}\n```\n"
