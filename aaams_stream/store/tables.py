"""Rows of a volume's tables, read by frame or all at once, never beyond what was committed."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from aaams_stream.errors import SinkError
from aaams_stream.model import ADJACENCY_DTYPE, EVENT_DTYPE, SEGMENT_DTYPE
from aaams_stream.store.address import Target
from aaams_stream.store.counts import Counts, read_counts
from aaams_stream.store.layout import KEY, array_in, read_offsets, read_rows

_TABLES = {"segments": SEGMENT_DTYPE, "adjacency": ADJACENCY_DTYPE, "events": EVENT_DTYPE}
_KEPT_BLOCKS = 2  # of rows, decoded, for walks from frame to frame


class Tables:
    """The tables of a volume that grow with its frames."""

    def __init__(self, path: Target, root: zarr.Group) -> None:
        record: Any = root.attrs[KEY]
        self.path = path  # where it lies: its folder, or its address
        self.frame_count: int = record["frames_committed"]
        self.complete: bool = record["complete"]
        self._root = root
        self._record = record
        self._block_rows: int = array_in(root, "segments/frame").chunks[0]  # as of every column
        self._blocks: dict[tuple[str, int], NDArray[Any]] = {}
        self._offsets: dict[str, NDArray[np.int64]] = {}
        self._identities: int | None = None

    def segments(self, t: int) -> NDArray[Any]:
        """Return the segments of a frame.

        Args:
            t: the frame.

        Returns:
            Rows of SEGMENT_DTYPE, in order of id.

        Raises:
            IndexError: there is no such frame.
            SinkError: a chunk that is needed is damaged.
        """
        return self._rows("segments", t, SEGMENT_DTYPE)

    def adjacency(self, t: int) -> NDArray[Any]:
        """Return the pairs of segments that touch in a frame.

        Args:
            t: the frame.

        Returns:
            Rows of ADJACENCY_DTYPE, in order of both ids.

        Raises:
            IndexError: there is no such frame.
            SinkError: a chunk that is needed is damaged.
        """
        return self._rows("adjacency", t, ADJACENCY_DTYPE)

    def events_at(self, t: int) -> NDArray[Any]:
        """Return the events of a frame.

        Args:
            t: the frame.

        Returns:
            Rows of EVENT_DTYPE, in the order they happened.

        Raises:
            IndexError: there is no such frame.
            SinkError: a chunk that is needed is damaged.
        """
        return self._rows("events", t, EVENT_DTYPE)

    def table(self, name: str) -> NDArray[Any]:
        """Return all rows of a table.

        Args:
            name: "segments", "adjacency" or "events".

        Returns:
            Rows of that table's dtype, with the frame in front.

        Raises:
            ValueError: there is no such table.
            SinkError: a chunk that is needed is damaged.
        """
        dtype = row_dtype(name)
        return self.known_ids(read_rows(self._root, name, 0, self.row_count(name), dtype))

    def row_count(self, table: str) -> int:
        """Return how many rows a table has; reads one chunk of its offsets.

        Args:
            table: "segments", "adjacency" or "events".

        Raises:
            SinkError: the chunk is damaged.
        """
        if not self.frame_count:
            return 0
        rows = int(array_in(self._root, f"{table}/offsets")[self.frame_count])
        self._require_rows(table, rows)
        return rows

    def offsets(self, table: str) -> NDArray[np.int64]:
        """Return where each frame's rows of a table begin.

        Args:
            table: "segments", "adjacency" or "events".

        Returns:
            (t + 1,) int64; the last is where the last frame's rows end.

        Raises:
            SinkError: they are damaged.
        """
        if table not in self._offsets:
            offsets = read_offsets(self._root, table, self.frame_count)
            self._require_rows(table, int(offsets[-1]))
            self._offsets[table] = offsets
        return self._offsets[table]

    def _require_rows(self, table: str, rows: int) -> None:
        """Raise a SinkError unless a table has so many rows."""
        found = array_in(self._root, f"{table}/frame").shape[0]
        if not 0 <= rows <= found or (self.complete and rows != found):
            raise SinkError(
                f"{self.path}: {table}/offsets is damaged (it ends at {rows} of {found} rows)"
            )

    def known_ids(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return rows as they are; a SinkError if they have ids that the volume does not have."""
        if self._identities is None:
            self._identities = self._own_counts().identities
        most = self._identities
        for name in {"id", "other", "first", "second"}.intersection(rows.dtype.names or ()):
            if int(rows[name].max(initial=0)) > most:
                raise SinkError(f"{self.path}: a table is damaged (it has ids that are not there)")
        return rows

    def _rows(self, table: str, t: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        if not -self.frame_count <= t < self.frame_count:
            raise IndexError(f"frame {t} is out of range; the volume holds {self.frame_count}")
        start, stop = self.offsets(table)[[t % self.frame_count, t % self.frame_count + 1]]
        size, parts = self._block_rows, []
        for block in range(start // size, max(start, stop - 1) // size + 1):
            rows = self._block(table, block, dtype)
            parts.append(rows[max(0, start - block * size) : max(0, stop - block * size)])
        return np.concatenate(parts)

    def _block(self, table: str, block: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        key = (table, block)
        if key not in self._blocks:
            while len(self._blocks) >= _KEPT_BLOCKS * 3:
                del self._blocks[next(iter(self._blocks))]
            start = block * self._block_rows
            stop = min(start + self._block_rows, int(self.offsets(table)[-1]))
            self._blocks[key] = self.known_ids(read_rows(self._root, table, start, stop, dtype))
        return self._blocks[key]

    @property
    def counts(self) -> Counts:
        """How many identities there are, and how many events of each kind.

        Reads no table, unless the volume is older than its counts.
        """
        return self._own_counts()

    def _own_counts(self) -> Counts:
        """Return the counts of the volume, also if this is a view of one."""
        rows = (Tables.row_count(self, name) for name in ("segments", "events"))
        return read_counts(self._root, self._record, *rows)


def row_dtype(table: str) -> np.dtype[Any]:
    """Return the columns of a table, the frame in front."""
    if table not in _TABLES:
        raise ValueError(f"a volume has the tables {', '.join(_TABLES)}, not {table!r}")
    return np.dtype([("frame", np.uint32), *_TABLES[table].descr])


def require_complete(volume: Tables, reason: str) -> None:
    """Raise a SinkError that gives the reason unless all frames of a volume are there."""
    if not volume.complete:
        raise SinkError(
            f"{volume.path}: is not complete ({volume.frame_count} frames so far), and {reason}; "
            "finish it with segment --resume"
        )
