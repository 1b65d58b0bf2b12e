"""Values of a table that cannot be.

What is damaged may be decoded all the same: without checksums, or where a sound chunk lies in the
place of another. Tables are looked things up by: an id or a frame that is not there would lead
astray, far enough to run out of memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import EventKind

MOST_IDENTITIES = 1 << 26  # more than a month of video has
_IDS = ("id", "first", "second", "survivor", "absorbed")
_IDS_OR_NONE = ("other", "parent", "heir")
_FRAMES = {
    "segments": ("frame",),
    "adjacency": ("frame",),
    "events": ("frame",),
    "tracks": ("first", "last"),
    "objects": ("first", "last"),
}


def implausible(table: str, column: str, values: NDArray[Any], frames: int) -> str | None:
    """Return why values cannot be those of a column of a table, None if they can.

    frames: more than any frame's number that is told of.
    """
    if not len(values):
        return None
    if column in _FRAMES.get(table, ()):
        return None if values.max() < frames else "has frames that are not there"
    if column in _IDS and table != "events":  # a change of scene is about nobody
        return None if 1 <= values.min() <= values.max() < MOST_IDENTITIES else "has no ids"
    if column in _IDS or column in _IDS_OR_NONE:
        return None if values.max() < MOST_IDENTITIES else "has no ids"
    if column == "kind" and not np.isin(values, list(EventKind)).all():
        return "has an event of no kind"
    if column == "area" and values.min() < 1:
        return "has segments without a pixel"
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return "has values that are no numbers"
    return None
