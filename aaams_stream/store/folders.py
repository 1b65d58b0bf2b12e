"""What can be told of a folder without opening it as a volume."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from zarr.core.sync import sync

from aaams_stream.errors import SinkError
from aaams_stream.paths import BUCKETS, WEB, is_address, scheme_of
from aaams_stream.store.address import Address, Target, read_document, target_of
from aaams_stream.store.archive import named_archive
from aaams_stream.store.layout import KEY
from aaams_stream.store.shards import is_consolidated


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


def size_of(target: Target) -> int | None:
    """Return the bytes that a volume takes up; None where nobody can tell."""
    if isinstance(target, Path):
        return size_on_disk(target)
    sizes = sync(target.store.sizes())
    return None if sizes is None else sum(sizes.values())


def is_packed(path: Path) -> bool:
    """Whether a volume was packed: files of its like are not those of a run."""
    return is_consolidated(json.loads(read_document(path, "")))


def is_volume(given: str | Path | Address) -> bool:
    """Whether there is a volume of ours, of whatever schema version, in a folder or elsewhere."""
    if is_address(given) and scheme_of(str(given)) not in (*BUCKETS, *WEB, "file"):
        return False  # a stream of video, say
    archive = named_archive(given) is not None
    path = target_of(given) if archive or not isinstance(given, Path) else given
    try:
        attributes = json.loads(read_document(path, ""))["attributes"]
    except SinkError:
        if is_address(str(path)) and scheme_of(str(path)) in WEB:
            return False  # a camera, say, that answers to other names in its own way
        raise
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    record = attributes.get(KEY) if isinstance(attributes, dict) else None
    return isinstance(record, dict) and "schema" in record  # coarse labels have less there
