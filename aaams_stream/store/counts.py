"""What a reader would otherwise have to sum up over all frames: kept in the group's attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from aaams_stream.model import EventKind
from aaams_stream.store.layout import ROWS, read_rows
from aaams_stream.store.validate import COUNTS

_ID_DTYPE = np.dtype([("id", np.uint32)])
_KIND_AND_ID_DTYPE = np.dtype([("kind", np.uint8), ("id", np.uint32)])


@dataclass(frozen=True, slots=True)
class Counts:
    """How many identities and events the frames so far have."""

    identities: int = 0
    events: Mapping[str, int] = field(default_factory=dict)  # by kind, those that occurred

    def with_rows(self, segments: NDArray[Any], events: NDArray[Any]) -> Counts:
        """Return the counts after more rows of both tables."""
        # ids grow from 1 and are never used again: the largest given out is their number
        ids = (int(rows["id"].max(initial=0)) for rows in (segments, events))
        kinds = np.bincount(events["kind"], minlength=len(EventKind) + 1)
        names = ((kind.name.lower(), int(kinds[kind])) for kind in EventKind)
        # always in the order of kinds, so that a resumed volume has the bytes of a whole run
        totals = {name: self.events.get(name, 0) + more for name, more in names}
        return Counts(
            max(self.identities, *ids), {name: count for name, count in totals.items() if count}
        )

    def to_record(self) -> dict[str, Any]:
        """Return the counts as the attributes have them."""
        return {"identities": self.identities, "events": dict(self.events)}


def read_counts(root: zarr.Group, record: Mapping[str, Any], segments: int, events: int) -> Counts:
    """Return the counts of so many rows of both tables.

    From the attributes `record`; where a volume is older than those, from the tables, a chunk of
    rows at a time.
    """
    if COUNTS in record:
        return Counts(**record[COUNTS])
    counts = Counts()
    for start in range(0, events, ROWS):
        rows = read_rows(root, "events", start, min(start + ROWS, events), _KIND_AND_ID_DTYPE)
        counts = counts.with_rows(np.zeros(0, _ID_DTYPE), rows)
    # an identity without an event of its own is younger than all others: it is in the last rows
    last = read_rows(root, "segments", max(0, segments - ROWS), segments, _ID_DTYPE)
    return counts.with_rows(last, np.zeros(0, _KIND_AND_ID_DTYPE))
