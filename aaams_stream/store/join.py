"""One volume out of parts that were segmented apart, to the bytes of a single pass.

A part is a volume of its own, which counts frames and ids from its own beginning. `Piece` says what
of it counts and what its ids are called in the whole. Pixels and long tables are moved by
`write_frames` and `write_rows`, which own whole chunks: several processes may call them at a time,
in any order, and again. The rest is small, and written by `finish_join` in one place.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from aaams_stream.errors import SinkError
from aaams_stream.kernels import label_maps
from aaams_stream.model import EventKind
from aaams_stream.store.chunks import ChunkCoder
from aaams_stream.store.counts import Counts
from aaams_stream.store.layout import (
    CHUNK_FRAMES,
    FINAL_TABLES,
    TABLES,
    array_in,
    has_video,
    open_group,
    read_offsets,
    read_rows,
    video_in,
    write_final_table,
)
from aaams_stream.store.levels import build_levels
from aaams_stream.store.tracks import EVENT_ROW_DTYPE, build_tracks
from aaams_stream.store.volume import open_volume
from aaams_stream.store.writer import VolumeWriter, sink_errors

LONG_TABLES = ("segments", "adjacency")  # too long for one place: `write_rows` has them
_NAMES = {"segments": ("id", "parent"), "adjacency": ("first", "second")}  # columns of ids
_FINAL_NAMES = {
    "tracks": ("id", "parent", "heir"),
    "hierarchy": ("survivor", "absorbed"),
    "objects": ("id",),
}


@dataclass(frozen=True, slots=True)
class PartTables:
    """What a part has besides pixels and long tables; small enough to be sent about."""

    path: Path
    frames: int
    ended: str
    identities: int
    times: NDArray[np.float64]  # (t,)
    offsets: Mapping[str, NDArray[np.int64]]  # (t + 1,) of the long tables
    events: NDArray[Any]  # EVENT_ROW_DTYPE
    final: Mapping[str, NDArray[Any]]  # FINAL_TABLES


@dataclass(frozen=True, slots=True)
class Piece:
    """What of a part counts in the whole, and where."""

    path: Path
    begin: int  # frame of the whole with which it begins
    skip: int  # its own frames before that one
    frames: int  # that count
    lookup: NDArray[np.uint32]  # (n,) what its own ids are called in the whole; 0 stays 0
    ages: NDArray[np.uint32] | None  # (n,) frames that each was seen before the part began
    own_rows: Mapping[str, int]  # of the long tables: its own first that counts,
    rows: Mapping[str, int]  # how many count,
    first_rows: Mapping[str, int]  # and where in the whole they begin

    @property
    def end(self) -> int:
        """The frame of the whole behind its last."""
        return self.begin + self.frames


def read_part(path: Path) -> PartTables:
    """Return what is small of a complete part; a SinkError if it is not complete."""
    volume = open_volume(path)
    if not volume.complete:
        raise SinkError(f"{path}: is a part that is not complete; run the same again to go on")
    root, frames = open_group(path), volume.frame_count
    events = int(read_offsets(root, "events", frames)[-1])
    return PartTables(
        path=path,
        frames=frames,
        ended=volume.ended,
        identities=volume.counts.identities,
        times=np.asarray(volume.times, np.float64),
        offsets={table: read_offsets(root, table, frames) for table in LONG_TABLES},
        events=read_rows(root, "events", 0, events, EVENT_ROW_DTYPE),
        final={
            table: read_rows(root, table, 0, _rows_in(root, table, dtype), dtype)
            for table, (_, dtype) in FINAL_TABLES.items()
        },
    )


def _rows_in(root: zarr.Group, table: str, dtype: np.dtype[Any]) -> int:
    first = (dtype.names or ("",))[0]
    return array_in(root, f"{table}/{first}").shape[0]


def write_frames(target: Path, pieces: Sequence[Piece], first: int, last: int) -> None:
    """Write the chunks of frames `first` to `last`, with the pictures where there are any.

    A chunk begins with `first`; it ends with `last` unless the whole does. pieces: all that these
    frames are in, in order.
    """
    root = open_group(target, "r+")
    sources = [open_group(piece.path) for piece in pieces]
    with sink_errors(target):
        coder = ChunkCoder(array_in(root, "labels/ids/0"))
        readers = [ChunkCoder(array_in(source, "labels/ids/0")) for source in sources]
        _write_chunks(coder, readers, pieces, (first, last), _move_labels)
        if has_video(root):
            coder = ChunkCoder(video_in(root))
            readers = [ChunkCoder(video_in(source)) for source in sources]
            _write_chunks(coder, readers, pieces, (first, last), _move_pictures)


def _write_chunks(
    coder: ChunkCoder,
    readers: Sequence[ChunkCoder],
    pieces: Sequence[Piece],
    frames: tuple[int, int],
    move: Any,
) -> None:
    """Put together all chunks of some frames; each of the parts' is decoded once, as a rule."""
    first, last = frames
    target, source = coder.empty(), coder.empty()
    for tile in itertools.product(*map(range, coder.tiles)):
        held: tuple[int, int] | None = None  # part and chunk that `source` has
        for begin in range(first, last, CHUNK_FRAMES):
            end = min(begin + CHUNK_FRAMES, last)
            if end - begin < CHUNK_FRAMES:
                target.fill(0)
            for k, own, at, count in _sources(pieces, begin, end):
                chunk = own // CHUNK_FRAMES
                if held != (k, chunk):
                    readers[k].read((chunk, *tile), source)
                    held = k, chunk
                move(pieces[k], source, own % CHUNK_FRAMES, target, at - begin, count)
            coder.write((begin // CHUNK_FRAMES, *tile), target)


def _sources(pieces: Sequence[Piece], begin: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield where frames come from: number of the piece, its own frame, frame, how many.

    None crosses the end of a chunk of the part.
    """
    for k, piece in enumerate(pieces):
        at = max(begin, piece.begin)
        while at < min(end, piece.end):
            own = at - piece.begin + piece.skip
            count = min(min(end, piece.end) - at, CHUNK_FRAMES - own % CHUNK_FRAMES)
            yield k, own, at, count
            at += count


def _move_labels(
    piece: Piece,
    source: NDArray[np.uint32],
    own: int,
    target: NDArray[np.uint32],
    at: int,
    count: int,
) -> None:
    pixels = (-1, CHUNK_FRAMES)  # kept as (y, x, t)
    strangers = label_maps.move_ids(
        source.reshape(pixels), own, piece.lookup, target.reshape(pixels), at, count
    )
    if strangers:
        raise SinkError(f"{piece.path}: damaged, it has ids that no table has")


def _move_pictures(
    piece: Piece,
    source: NDArray[np.uint8],
    own: int,
    target: NDArray[np.uint8],
    at: int,
    count: int,
) -> None:
    target[:, at : at + count] = source[:, own : own + count]  # kept as (y, t, c, x)


def write_rows(target: Path, table: str, pieces: Sequence[Piece], first: int, last: int) -> None:
    """Write rows `first` to `last` of a long table, whole chunks of all its columns.

    A chunk begins with `first`; it ends with `last` unless the table does. pieces: all that these
    rows are in, in order.
    """
    root = open_group(target, "r+")
    columns = _coders(root, table)
    sources = [_Rows(piece, table) for piece in pieces]
    at_once = columns["frame"].shape[-1]
    with sink_errors(target):
        for begin in range(first, last, at_once):
            end = min(begin + at_once, last)
            blocks = {name: np.zeros_like(coder.empty()) for name, coder in columns.items()}
            for piece, source in zip(pieces, sources, strict=True):
                here = piece.first_rows[table]
                start, stop = max(begin, here), min(end, here + piece.rows[table])
                if start < stop:
                    rows = source.named(start - here, stop - here)
                    for name, block in blocks.items():
                        block[..., start - begin : stop - begin] = rows[name].T
            for name, coder in columns.items():
                place = (begin // at_once, *(0 for _ in coder.tiles))
                coder.write(place, blocks[name])


def _coders(root: zarr.Group, table: str) -> dict[str, ChunkCoder]:
    return {name: ChunkCoder(array_in(root, f"{table}/{name}")) for name in TABLES[table]}


class _Rows:
    """Rows of a long table of a part, read as they are asked for, in order."""

    def __init__(self, piece: Piece, table: str) -> None:
        self._piece = piece
        self._table = table
        self._root = open_group(piece.path)
        self._coders = _coders(self._root, table)
        self._held = -1  # the chunk that was decoded last
        self._blocks: dict[str, NDArray[Any]] = {}
        # rows of a frame lie in the order of their ids: where ids change their order, so do rows
        names = piece.lookup[piece.lookup > 0].astype(np.int64)
        self._turned = bool((np.diff(names) < 0).any())

    def named(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """Return the columns of rows `start` to `stop` of those that count, as the whole's."""
        piece, table = self._piece, self._table
        own, first, last = piece.own_rows[table], start, stop
        if self._turned:  # whole frames
            offsets = read_offsets(self._root, table, piece.skip + piece.frames) - own
            first = int(offsets[np.searchsorted(offsets, start, side="right") - 1])
            last = int(offsets[np.searchsorted(offsets, stop)])
        columns = self._read(own + first, own + last)
        columns["frame"] += np.uint32(piece.begin - piece.skip)
        if piece.ages is not None and "age" in columns:
            columns["age"] += piece.ages[columns["id"]]
        for name in _NAMES[table]:
            if columns[name].max(initial=0) >= len(piece.lookup):
                raise SinkError(f"{piece.path}: damaged, {table}/{name} has ids that are not there")
            columns[name] = piece.lookup[columns[name]]
        if not self._turned:
            return columns
        if table == "adjacency":
            pair = np.stack([columns["first"], columns["second"]])
            columns["first"], columns["second"] = pair.min(axis=0), pair.max(axis=0)
        order = np.lexsort([columns[name] for name in (*_NAMES[table][::-1], "frame")])
        order = order[start - first : stop - first]
        return {name: column[order] for name, column in columns.items()}

    def _read(self, first: int, last: int) -> dict[str, NDArray[Any]]:
        """Return rows `first` to `last` of the part's own; a chunk is decoded once, as a rule."""
        found: dict[str, list[NDArray[Any]]] = {name: [] for name in self._coders}
        size = self._coders["frame"].shape[-1]
        for chunk in range(first // size, -(-last // size)):
            if chunk != self._held:
                for name, coder in self._coders.items():
                    block = self._blocks.setdefault(name, coder.empty())
                    coder.read((chunk, *(0 for _ in coder.tiles)), block)
                self._held = chunk
            begin, end = max(first - chunk * size, 0), min(last - chunk * size, size)
            for name, block in self._blocks.items():
                found[name].append(block[..., begin:end].T.copy())  # the block is used again
        return {name: np.concatenate(pieces) for name, pieces in found.items()}


def join_tables(
    writer: VolumeWriter, pieces: Sequence[Piece], parts: Sequence[PartTables], events: NDArray[Any]
) -> None:
    """Write all that grows with frames and is short, and give every array its size.

    parts: one for each piece; events: of the whole (EVENT_ROW_DTYPE), in the order of frames.
    """
    root, frames = writer.root, pieces[-1].end
    both = list(zip(parts, pieces, strict=True))
    with sink_errors(writer.path):
        _fill(root, "labels/ids/0", frames)
        if has_video(root):
            video = video_in(root)
            video.resize((frames, *video.shape[1:]))
        times = [part.times[piece.skip :][: piece.frames] for part, piece in both]
        _fill(root, "time", frames, np.concatenate(times))
        for table in LONG_TABLES:
            counts = [
                np.diff(part.offsets[table])[piece.skip :][: piece.frames] for part, piece in both
            ]
            bounds = np.append(0, np.cumsum(np.concatenate(counts)))
            _fill(root, f"{table}/offsets", frames + 1, bounds)
            for name in TABLES[table]:
                _fill(root, f"{table}/{name}", int(bounds[-1]))
        bounds = np.searchsorted(np.ascontiguousarray(events["frame"]), np.arange(frames + 1))
        _fill(root, "events/offsets", frames + 1, bounds)
        for name in TABLES["events"]:
            _fill(root, f"events/{name}", len(events), events[name])


def join_final(pieces: Sequence[Piece], parts: Sequence[PartTables]) -> dict[str, NDArray[Any]]:
    """Return the final tables where every piece but the first begins with a scene change.

    No track and no tree crosses one, so those of the parts are those of the whole.
    """
    found: dict[str, list[NDArray[Any]]] = {table: [] for table in FINAL_TABLES}
    for part, piece in zip(parts, pieces, strict=True):
        tables = {table: rows.copy() for table, rows in part.final.items()}
        for table, columns in _FINAL_NAMES.items():
            for name in columns:
                tables[table][name] = piece.lookup[tables[table][name]]
        for table in ("tracks", "objects"):
            for name in ("first", "last"):
                tables[table][name] += np.uint32(piece.begin)
        if piece is not pieces[-1]:
            ends = tables["tracks"]["end"]
            ends[ends == 0] = EventKind.CUT
        for table, rows in tables.items():
            found[table].append(rows)
    joined = {table: np.concatenate(rows) for table, rows in found.items()}
    objects = joined["objects"]
    joined["objects"] = objects[np.lexsort((objects["id"], -objects["score"]))]
    return joined


def build_final(writer: VolumeWriter) -> dict[str, NDArray[Any]]:
    """Return the final tables where tracks go on from piece to piece: from all that was written."""
    root = writer.root
    frames = array_in(root, "time").shape[0]
    rows, events = (int(read_offsets(root, t, frames)[-1]) for t in ("segments", "events"))
    return {"tracks": build_tracks(root, rows, events), **build_levels(root, frames)}


def finish_join(
    writer: VolumeWriter, final: Mapping[str, NDArray[Any]], events: NDArray[Any], ended: str
) -> None:
    """Write the final tables, and mark the volume complete; `ended` as of its source."""
    root = writer.root
    with sink_errors(writer.path):
        for table in FINAL_TABLES:
            write_final_table(root, table, final[table])
    counts = Counts().with_rows(final["tracks"], events)
    writer.finish_joined(array_in(root, "time").shape[0], counts, ended)


def _fill(root: zarr.Group, node: str, rows: int, values: NDArray[Any] | None = None) -> None:
    """Give an array its size and, if they are given, all of its values."""
    array = array_in(root, node)
    array.resize((rows, *array.shape[1:]))
    if values is not None and rows:
        array[:] = values.astype(array.dtype)
