"""Everything this package raises on purpose.

    AaamsError
    ├── ConfigError(ValueError)   a parameter, a key or a command line
    ├── SourceError(OSError)      what comes in: a file, a folder, a camera
    └── SinkError(OSError)        what goes out: a volume, a picture, a table

The command line prints these as one line and exits with 2; anything else is a bug.
"""

from __future__ import annotations


class AaamsError(Exception):
    """A problem the user can fix; its text says where, what was expected and what came.

    Example:
        >>> import aaams_stream as aaams
        >>> try:
        ...     aaams.open_volume("nowhere.zarr")
        ... except aaams.AaamsError as error:
        ...     print(error)
        nowhere.zarr: no such volume
    """


class ConfigError(AaamsError, ValueError):
    """A parameter is unknown, out of range or of the wrong type.

    Example:
        >>> import aaams_stream as aaams
        >>> aaams.Params().overridden(["post.levle=2"])
        Traceback (most recent call last):
        aaams_stream.errors.ConfigError: unknown key post.levle; the nearest known is post.level
    """


class SourceError(AaamsError, OSError):
    """The input cannot be found, opened or decoded.

    Example:
        >>> import aaams_stream as aaams
        >>> next(aaams.stream("nowhere.mp4"))
        Traceback (most recent call last):
        aaams_stream.errors.SourceError: nowhere.mp4: no such file...
    """


class SinkError(AaamsError, OSError):
    """The output cannot be written, or would destroy something.

    Example:
        >>> import aaams_stream as aaams
        >>> aaams.open_volume("nowhere.zarr")
        Traceback (most recent call last):
        aaams_stream.errors.SinkError: nowhere.zarr: no such volume
    """
