"""What can be told of a folder without opening it as a volume."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from aaams_stream.store.layout import KEY


def size_on_disk(folder: str | Path) -> int:
    """Return the bytes of all files below a folder, also while a process writes there."""
    size = 0
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # a name under which a file was being written
                if entry.is_dir(follow_symlinks=False):
                    size += size_on_disk(entry.path)
                else:
                    size += entry.stat(follow_symlinks=False).st_size
    return size


def is_volume(path: Path) -> bool:
    """Whether a folder is a volume of ours, of whatever schema version."""
    try:
        attributes = json.loads((path / "zarr.json").read_text(encoding="utf-8"))["attributes"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    return isinstance(attributes, dict) and isinstance(attributes.get(KEY), dict)
