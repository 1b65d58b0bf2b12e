"""Names of files as users give them."""

from __future__ import annotations

import os
from pathlib import Path

from aaams_stream.errors import ConfigError


def expanded(name: str | Path) -> Path:
    """Return a name as a path, with `~` written out; a ConfigError where nothing can have it."""
    if not isinstance(name, str | os.PathLike):
        raise ConfigError(f"expected the name of a file or folder, got {kind_of(name)}")
    text = os.fspath(name)
    if "\0" in text:
        raise ConfigError(f"{text!r}: no file can be named like this: there is a NUL character")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        user = Path(text).parts[0]
        raise ConfigError(f"{text}: {user} is nobody's folder here; write it out") from None


def kind_of(thing: object) -> str:
    """Say what something is, briefly, where a text was expected: an array must not be printed."""
    shape = getattr(thing, "shape", None)
    what = type(thing).__name__
    return f"{what} of shape {shape}" if isinstance(shape, tuple) else what
