"""Everything this package raises on purpose.

    AaamsError
    ├── ConfigError(ValueError)   a parameter, a key or a command line
    ├── SourceError(OSError)      what comes in: a file, a folder, a camera
    └── SinkError(OSError)        what goes out: a volume, a picture, a table

The command line prints these as one line and exits with 2; anything else is a bug.
"""

from __future__ import annotations


class AaamsError(Exception):
    """A problem the user can fix; its text says where, what was expected and what came."""


class ConfigError(AaamsError, ValueError):
    """A parameter is unknown, out of range or of the wrong type."""


class SourceError(AaamsError, OSError):
    """The input cannot be found, opened or decoded."""


class SinkError(AaamsError, OSError):
    """The output cannot be written, or would destroy something."""
