"""The parts of a film in their order: which frames of each count, and what its ids are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.cluster.plan import Request
from aaams_stream.model import EventKind
from aaams_stream.store import CHUNK_FRAMES, ROWS
from aaams_stream.store.join import LONG_TABLES, PartTables, Piece, write_frames, write_rows
from aaams_stream.store.tracks import EVENT_ROW_DTYPE

_AT_ONCE = 64 * CHUNK_FRAMES  # frames of one task of assembly, at most
_ROWS_AT_ONCE = 8 * ROWS

Work = tuple[Callable[..., None], tuple[Any, ...]]


class Chain:
    """Parts one behind the other, from the beginning of the film on."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self.parts: list[PartTables] = []
        self.pieces: list[Piece] = []
        self.events: list[NDArray[Any]] = []
        self.identities = 0
        self._rows = dict.fromkeys(LONG_TABLES, 0)
        self._assembled = 0  # frames
        self._assembled_rows = dict.fromkeys(LONG_TABLES, 0)

    @property
    def end(self) -> int:
        """The frame behind the last."""
        return self.pieces[-1].end if self.pieces else 0

    def add_scene(self, part: PartTables) -> None:
        """Add a part that begins with a scene change, or with the film: its ids are all new."""
        lookup = np.arange(part.identities + 1, dtype=np.uint32)
        lookup[1:] += np.uint32(self.identities)
        events = part.events.copy()
        for name in ("id", "other"):
            events[name] = lookup[events[name]]
        events["frame"] += np.uint32(self.end)
        if self.pieces:
            change = np.array([(self.end, EventKind.CUT, 0, 0)], EVENT_ROW_DTYPE)
            events = np.concatenate([change, events])
        self.identities += part.identities
        self.add(part, 0, lookup, None, events)

    def add(
        self,
        part: PartTables,
        skip: int,
        lookup: NDArray[np.uint32],
        ages: NDArray[np.uint32] | None,
        events: NDArray[Any],
    ) -> None:
        """Add a part, of which the first `skip` frames do not count; events: as the whole's."""
        own = {table: int(part.offsets[table][skip]) for table in LONG_TABLES}
        rows = {table: int(part.offsets[table][-1]) - own[table] for table in LONG_TABLES}
        frames = part.frames - skip
        self.pieces.append(
            Piece(
                *(part.path, self.end, skip, frames, lookup, ages),
                own_rows=own,
                rows=rows,
                first_rows=dict(self._rows),
            )
        )
        self.parts.append(part)
        self.events.append(events)
        for table in LONG_TABLES:
            self._rows[table] += rows[table]

    def assembly(self, at_end: bool) -> Iterator[Work]:
        """Yield what can be put together now and was not yet: calls that own whole chunks."""
        target = self._request.job.store
        last = self.end if at_end else self.end - self.end % CHUNK_FRAMES
        for first in range(self._assembled, last, _AT_ONCE):
            until = min(first + _AT_ONCE, last)
            pieces = [p for p in self.pieces if p.begin < until and p.end > first]
            yield write_frames, (target, pieces, first, until)
        self._assembled = max(last, self._assembled)
        for table in LONG_TABLES:
            rows = self._rows[table]
            last = rows if at_end else rows - rows % ROWS
            for first in range(self._assembled_rows[table], last, _ROWS_AT_ONCE):
                until = min(first + _ROWS_AT_ONCE, last)
                pieces = [
                    p
                    for p in self.pieces
                    if p.first_rows[table] < until and p.first_rows[table] + p.rows[table] > first
                ]
                yield write_rows, (target, table, pieces, first, until)
            self._assembled_rows[table] = max(last, self._assembled_rows[table])
