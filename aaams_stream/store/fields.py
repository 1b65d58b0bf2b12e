"""What each field of a volume's attributes may be."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from aaams_stream.core.roi import Roi
from aaams_stream.model import EventKind

_MOST_FRAMES = 2**32  # tables count them in uint32
_MOST_SIDE = 2**20
_RATIO = re.compile(r"[0-9]{1,40}(/[0-9]{1,40})?")


def is_int(value: object, low: int = 0, high: int = 2**63) -> bool:
    """Whether this is a whole number in a range."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def is_number(value: object) -> bool:
    """Whether this is a number, and no NaN or infinity."""
    if isinstance(value, float):
        return math.isfinite(value)
    return is_int(value, -(2**63))


def is_side(value: object) -> bool:
    """Whether this is a number of pixels that a frame may have in a row."""
    return is_int(value, 1, _MOST_SIDE)


def is_ratio(value: object) -> bool:
    """Whether a text is a number above 0, as a fraction."""
    if not isinstance(value, str) or not _RATIO.fullmatch(value):
        return False
    return all(int(part) > 0 for part in value.split("/"))


def is_selection(value: object) -> bool:
    """Whether this is what `Clip.to_record` returns; nothing for a stretch of a live stream."""
    if not isinstance(value, dict) or not set(value) <= {"start", "duration", "every", "size"}:
        return False
    size = value.get("size")
    return (
        all(value.get(name) is None or is_number(value[name]) for name in ("start", "duration"))
        and is_int(value.get("every", 1), 1)
        and (
            size is None or (isinstance(size, list) and len(size) == 2 and all(map(is_side, size)))
        )
    )


def is_configuration(value: object) -> bool:
    """Whether these are tables of settings; which ones there are is for Params to say."""
    return isinstance(value, dict) and all(
        isinstance(table, dict)
        and all(isinstance(v, str | bool) or is_number(v) for v in table.values())
        for table in value.values()
    )


def is_region(value: object, shape: tuple[int, int]) -> bool:
    """Whether this is a mask of so many rows and columns, as `Roi.to_text` has it."""
    try:
        return isinstance(value, str) and Roi.of_text(value, shape) is not None
    except ValueError:  # an empty one is a ConfigError, which is one too
        return False


def is_counts(value: object) -> bool:
    """Whether this is what `Counts` has."""
    if not isinstance(value, dict) or set(value) != {"identities", "events"}:
        return False
    events, kinds = value["events"], {kind.name.lower() for kind in EventKind}
    return (
        is_int(value["identities"], 0, 2**32 - 1)
        and isinstance(events, dict)
        and set(events) <= kinds
        and all(map(is_int, events.values()))
    )


_Field = tuple[Callable[[Any], bool], str]
FIELDS: dict[str, _Field] = {
    "version": (lambda v: isinstance(v, str), "a text"),
    "source": (lambda v: isinstance(v, dict), "a table"),
    "configuration": (is_configuration, "tables of settings"),
    "frames_committed": (lambda v: is_int(v, 0, _MOST_FRAMES), "a number of frames"),
    "complete": (lambda v: isinstance(v, bool), "true or false"),
    "ended": (lambda v: isinstance(v, str), "a text"),
}
SOURCE_FIELDS: dict[str, _Field] = {
    "width": (is_side, "a number of pixels"),
    "height": (is_side, "a number of pixels"),
    "rate": (is_ratio, "a fraction above 0"),
    "time_base": (is_ratio, "a fraction above 0"),
    "spec": (lambda v: isinstance(v, str), "a text"),
    "fingerprint": (lambda v: v is None or isinstance(v, str), "a text or null"),
    "selection": (is_selection, "start, duration, every and size"),
    "with_video": (lambda v: isinstance(v, bool), "true or false"),
}
