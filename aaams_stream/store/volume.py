"""Reading a volume, lazily, and never beyond what was committed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import ArrayLike, NDArray
from zarr.abc.store import Store

from aaams_stream.core.pool import pool
from aaams_stream.errors import SinkError
from aaams_stream.model import (
    ADJACENCY_DTYPE,
    TRACK_DTYPE,
    Crop,
    Lineage,
    SegmentGraph,
    build_graph,
)
from aaams_stream.params import Params
from aaams_stream.store.address import Address, Target, target_of
from aaams_stream.store.frames import Frames, Pictures
from aaams_stream.store.layout import (
    Header,
    array_in,
    read_rows,
    video_in,
)
from aaams_stream.store.levelled import Levelled
from aaams_stream.store.lineage import lineage, with_areas
from aaams_stream.store.root import open_root
from aaams_stream.store.sweep import require_chunks
from aaams_stream.store.tracks import build_tracks

NEIGHBOUR_DTYPE = np.dtype([("id", np.uint32), *ADJACENCY_DTYPE.descr[2:]])


class Volume(Levelled):
    """A volume opened for reading; what is written later shows after `open_volume` again.

    Nothing is read before it is asked for. Frames count from 0, and -1 is the last. `ids` (t, h, w)
    is indexed as NumPy indexes an array; `video` has the frames, where they are stored.

    Example:
        >>> import aaams_stream as aaams
        >>> summary = aaams.segment_video("demo", "demo.zarr", duration=0.5, size=(160, 120))
        >>> volume = aaams.open_volume("demo.zarr")
        >>> volume.ids[10].shape, len(volume.at(segments=8).tracks) < len(volume.tracks)
        ((120, 160), True)
    """

    unit = "supervoxel"  # what an id stands for

    def __init__(self, path: Target, root: zarr.Group) -> None:
        super().__init__(path, root)
        record = self._record
        self.ended: str = record["ended"]  # "complete", "damaged: …" or "interrupted"
        self.version: str = record["version"]
        self.header = Header.from_record(record)
        self.source: str = self.header.spec
        self.height, self.width = self.header.height, self.header.width
        self.ids = Frames(array_in(root, "labels/ids/0"), self.frame_count)
        self.video: Pictures | None = None  # (t, h, w, 3), where they are stored
        if self.header.with_video:
            self.video = Pictures(Frames(video_in(root), self.frame_count))
        self._tracks: NDArray[Any] | None = None

    def __repr__(self) -> str:
        kept = ["video"] * self.header.with_video + ["levels"] * self.has_levels
        return (
            f"<Volume {self.path.name}: {self.frame_count} frames, {self.width}x{self.height}, "
            f"{self.fps:g} fps, {'complete' if self.complete else 'incomplete'}"
            f"{', with ' + ' and '.join(kept) if kept else ''}>"
        )

    def __len__(self) -> int:
        return self.frame_count

    def __bool__(self) -> bool:
        return True  # also without frames

    @property
    def shape(self) -> tuple[int, int, int]:
        """How many frames there are, and their height and width: the shape of `ids`."""
        return self.frame_count, self.height, self.width

    @property
    def fps(self) -> float:
        """Frames a second, by what the source says of itself; `times` is exact."""
        return float(self.header.rate)

    @property
    def params(self) -> Params:
        """The settings the volume was made with."""
        return Params().updated(self.header.configuration)

    @property
    def roi(self) -> NDArray[np.bool_] | None:
        """The region of interest, (h, w): elsewhere ids are 0. None: all of a frame."""
        region = self.header.region
        return None if region is None else region.mask

    @property
    def times(self) -> NDArray[np.float64]:
        """Presentation time of every frame in seconds."""
        return array_in(self._root, "time")[: self.frame_count]

    @property
    def time_span(self) -> tuple[float, float] | None:
        """Presentation time of the first and the last frame in seconds; None without frames."""
        if not self.frame_count:
            return None
        times = array_in(self._root, "time")
        first, last = (float(times[t]) for t in (0, self.frame_count - 1))
        return first, last

    def require_chunks(self) -> None:
        """Look whether every chunk that counts is there; files alone, `check` reads them.

        Raises:
            SinkError: one is not; it is named.
        """
        require_chunks(self._root)

    @property
    def events(self) -> NDArray[Any]:
        """All events: EVENT_DTYPE with the frame in front."""
        return self.table("events")

    @property
    def tracks(self) -> NDArray[Any]:
        """One row per identity: TRACK_DTYPE, in order of id; of what was committed so far."""
        if self._tracks is None:
            if self.complete:
                count = array_in(self._root, "tracks/id").shape[0]
                tracks = read_rows(self._root, "tracks", 0, count, TRACK_DTYPE)
            else:
                segments, events = (self.row_count(name) for name in ("segments", "events"))
                tracks = build_tracks(self._root, segments, events)
            self.known_ids(tracks[["id"]])
            self._tracks = tracks
        return self._tracks.copy()

    def segment(self, track_id: int, t: int) -> np.void:
        """Return one segment of a frame.

        Args:
            track_id: its id.
            t: the frame.

        Returns:
            Its row of `segments(t)`.

        Raises:
            ValueError: there is no such id, or it is not in that frame.
            IndexError: there is no such frame.
        """
        rows = self.segments(t)
        at = int(np.searchsorted(rows["id"], track_id))
        if at == len(rows) or rows["id"][at] != track_id:
            self._track(track_id)
            raise ValueError(f"id {track_id} is not in frame {t}; see tracks for when it lives")
        row: np.void = rows[at]
        return row

    def mask(self, track_id: int, t: int) -> NDArray[np.bool_]:
        """Return where a segment is in a frame; nowhere if it is hidden.

        Args:
            track_id: its id.
            t: the frame.

        Returns:
            (h, w) of bool.

        Raises:
            ValueError: there is no such id.
            IndexError: there is no such frame.
        """
        mask = np.asarray(self.ids[t] == track_id)
        if not mask.any():
            self._track(track_id)
        return mask

    def crop(self, track_id: int, t: int) -> Crop:
        """Cut a segment out of a frame.

        Args:
            track_id: its id.
            t: the frame.

        Returns:
            Its box and mask, and the picture where that is stored.

        Raises:
            ValueError: there is no such id, or it is not in that frame.
            IndexError: there is no such frame.
        """
        x0, y0, x1, y1 = map(int, self.segment(track_id, t)["bbox"])
        mask = np.asarray(self.ids[t][y0:y1, x0:x1] == track_id)
        rgb = None if self.video is None else self.video[t, y0:y1, x0:x1]
        return Crop(t % self.frame_count, (x0, y0, x1, y1), mask, rgb)

    def tube(self, track_id: int) -> Iterator[Crop]:
        """Cut a track out of the volume, frame by frame.

        Args:
            track_id: its id.

        Yields:
            Its `crop` of each frame in which it is seen.

        Raises:
            ValueError: there is no such id.
        """
        track = self._track(track_id)
        for t in range(int(track["first"]), int(track["last"]) + 1):
            if track_id in self.segments(t)["id"]:
                yield self.crop(track_id, t)

    def neighbours(self, track_id: int, t: int) -> NDArray[Any]:
        """Return who touches a segment in a frame.

        Args:
            track_id: its id.
            t: the frame.

        Returns:
            A row for each neighbour: id, length (pixel sides they share) and contrast (mean
            colour distance across those, L*a*b* units).

        Raises:
            ValueError: there is no such id, or it is not in that frame.
            IndexError: there is no such frame.
        """
        self.segment(track_id, t)
        pairs = self.adjacency(t)
        pairs = pairs[(pairs["first"] == track_id) | (pairs["second"] == track_id)]
        rows = np.empty(len(pairs), NEIGHBOUR_DTYPE)
        rows["id"] = np.where(pairs["first"] == track_id, pairs["second"], pairs["first"])
        rows["length"], rows["contrast"] = pairs["length"], pairs["contrast"]
        return rows

    def lineage(self, track_id: int) -> Lineage:
        """Return the history of an identity through splits and merges.

        Args:
            track_id: its id.

        Returns:
            Ancestors, descendants and the events between them.

        Raises:
            ValueError: there is no such id.
        """
        self._track(track_id)
        return with_areas(lineage(self.events, track_id), self)

    def _track(self, track_id: int) -> np.void:
        """Return the row of an identity in `tracks`; a ValueError where there is no such id."""
        rows = self.tracks if self._tracks is None else self._tracks
        at = int(np.searchsorted(rows["id"], track_id))
        if at == len(rows) or rows["id"][at] != track_id:
            raise ValueError(f"the volume holds no id {track_id}; see tracks for those it holds")
        row: np.void = rows[at]
        return row

    def graph(self, a: int = 0, b: int | None = None) -> SegmentGraph:
        """Return the segments of some frames as a graph over space and time.

        Args:
            a: the first frame.
            b: the one after the last; None: the end. Both may count from the end, as slices do.

        Returns:
            Nodes with features, edges for touch, same id, split or merge, as arrays.
        """
        frames = range(self.frame_count)[a:b]
        reads = (self.segments, self.adjacency, self.events_at)
        return build_graph(frames, *([read(t) for t in frames] for read in reads))

    def pool(
        self, features: ArrayLike, t: int, *, layout: str | None = None
    ) -> NDArray[np.float32]:
        """Return the mean of an array over each segment of a frame; see `aaams_stream.pool`.

        Args:
            features: (h, w), (h, w, c) or (c, h, w) of any number type, or a map of another size.
            t: the frame.
            layout: "hwc" or "chw", where three axes leave it open.

        Returns:
            (k,) or (k, c) float32; row i belongs to row i of `segments(t)`.

        Raises:
            ValueError: the features do not fit the frame.
            IndexError: there is no such frame.
        """
        return pool(self.ids[t], features, self.segments(t)["id"], layout=layout)


def open_volume(store: str | Path | Address | Store) -> Volume:
    """Open a volume for reading.

    Args:
        store: the volume's folder, its address (s3://, gs://, az://, https://), or a store of Zarr;
            it may still be growing.

    Returns:
        The volume, as far as it was committed.

    Raises:
        SinkError: there is no volume, or none that this version reads; the text says why.

    Example:
        >>> import aaams_stream as aaams
        >>> summary = aaams.segment_video("demo", "seen.zarr", duration=0.1, size=(160, 120))
        >>> aaams.open_volume("seen.zarr").frame_count
        3
    """
    path = target_of(store)
    return Volume(path, open_root(path))


def describe(path: Target) -> str:
    """Say in a few words what state a volume is in, and what can be done with it."""
    try:
        volume = open_volume(path)
    except SinkError as error:
        other = "schema version" in str(error)
        return f"({'of another schema version' if other else 'damaged'}); --overwrite replaces it"
    state = f"{'complete' if volume.complete else 'incomplete'}, {volume.frame_count} frames"
    return f"({state}); --resume continues it, --overwrite replaces it"
