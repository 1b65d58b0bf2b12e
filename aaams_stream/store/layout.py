"""What a volume looks like on disk: names, columns, chunks, codecs and metadata.

    labels/ids/0   uint32 (t, y, x)   the id volume; 0 = not written
    0              uint8 (t, c, y, x) the frames, on demand
    time           float64 (t)        presentation time in seconds
    segments/…     one row per segment and frame, with offsets (t + 1)
    adjacency/…    one row per pair of touching segments and frame, with offsets (t + 1)
    events/…       one row per event, with offsets (t + 1)
    tracks/…       one row per identity; filled in once the volume is complete
    hierarchy/…    one row per merge of two groups of identities, in order; filled in likewise
    objects/…      one row per group that looks like a thing, best first; filled in likewise
    labels/coarse_N/0  the volume at N groups a frame, on demand
    resume/…       the segmenter's state and the source's marks at the last commit; gone once the
                   volume is complete

The group's attributes say what a volume is about, how many frames count, and how many identities
and events those have, so that nobody reads a table for that. Those of `labels` repeat them, as they
were when the volume was begun and are when it is complete: one damaged document loses nothing.
Zarr v3 throughout; `labels/ids`, and the group itself when it has frames, are OME-NGFF 0.5.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec, TransposeCodec, ZstdCodec
from zarr.codecs.numcodecs import Delta
from zarr.errors import ZarrUserWarning

from aaams_stream.core.roi import Roi
from aaams_stream.errors import SinkError
from aaams_stream.model import (
    ADJACENCY_DTYPE,
    EVENT_DTYPE,
    HIERARCHY_DTYPE,
    OBJECT_DTYPE,
    SEGMENT_DTYPE,
    TRACK_DTYPE,
)
from aaams_stream.store.address import Address, SnapshotStore, Target
from aaams_stream.store.guard import GuardedStore
from aaams_stream.store.plausible import implausible
from aaams_stream.store.stored import StoredArray, place_of

# 2: adjacency, tracks, and more columns of segments; 3: hierarchy and objects; 4: a checksum in
# every chunk and over our attributes, and no chunk is left out
SCHEMA = 4
WITHOUT_LEVELS, WITHOUT_CHECKSUMS = 2, 3
READABLE = (WITHOUT_LEVELS, WITHOUT_CHECKSUMS, SCHEMA)
KEY = "aaams_stream"  # our corner of the group's attributes
COPY = "aaams_stream_copy"  # what it says, again, in the attributes of `labels`
NGFF = "0.5"
INTERRUPTED = "interrupted"  # how the source ended, until it did

CHUNK_FRAMES = 8
ROWS = 32768  # of a column in one chunk: each costs a millisecond or two, however few it holds
AT_ONCE = 2 * ROWS  # rows of a table in memory at a time, where all are gone through
_TILE_HEIGHT, _TILE_WIDTH = 720, 1280  # larger frames are cut into tiles of at most this
_LEVEL = 3  # of zstd: 0.15 bytes a pixel for ids; 9 halves the speed for a tenth less
_COLUMN_LEVEL = 1  # 3 doubles the time for a hundredth less
# A chunk of frames is kept in the order y, t, c, x, as differences along x: beside each other lie
# the same row of all colours, whose edges coincide, and of all frames, which often are the same.
FRAME_ORDER = (2, 0, 1, 3)
LABEL_ORDER = (1, 2, 0)
_FRAME_LEVEL = 1  # of differences; 3 takes longer and finds less


class Column(NamedTuple):
    """One column of a table."""

    dtype: np.dtype[Any]
    width: int | None  # values per row, None for a scalar
    dimension: str | None  # name of that second axis


# Names of the second axis of columns that have one.
_AXES = {
    "mode": "Labxy",
    "bandwidth_colour": "colour_pair",
    "bandwidth_space": "space_pair",
    "bbox": "corner",
    "centroid": "xy",
    "motion": "xy",
    "start": "xy",
    "stop": "xy",
    "colour": "Lab",
    "colour_spread": "Lab",
}


def columns_of(record: np.dtype[Any]) -> dict[str, Column]:
    """Return the columns of a table whose rows are such records."""
    columns = {}
    for name in record.names or ():
        field = record[name]
        width = field.shape[0] if field.shape else None
        columns[name] = Column(field.base, width, _AXES.get(name))
    return columns


_FRAME = {"frame": Column(np.dtype(np.uint32), None, None)}
# Tables that grow with every frame.
TABLES = {
    "segments": _FRAME | columns_of(SEGMENT_DTYPE),
    "adjacency": _FRAME | columns_of(ADJACENCY_DTYPE),
    "events": _FRAME | columns_of(EVENT_DTYPE),
}
PRESENT_DTYPE = np.dtype([("frame", np.uint32), ("id", np.uint32)])  # of the segment table
# Tables that are written when all frames are there, and the names of their first axes.
FINAL_TABLES = {
    "tracks": ("track", TRACK_DTYPE),
    "hierarchy": ("merge", HIERARCHY_DTYPE),
    "objects": ("object", OBJECT_DTYPE),
}
LEVEL_TABLES = ("hierarchy", "objects")


@dataclass(frozen=True, slots=True)
class Header:
    """What a volume is about; two runs may share a volume only if all of it is equal."""

    width: int
    height: int
    rate: Fraction  # of the frames in the volume
    time_base: Fraction
    spec: str  # where the frames came from, to find them again
    fingerprint: str | None  # what tells the source from others; None: it cannot be read again
    selection: dict[str, Any]  # start, duration, every, size
    configuration: dict[str, Any]  # every setting, table by table
    with_video: bool = False
    stretch: float | None = None  # seconds after which parts begin; None: it is one pass
    roi: str | None = None  # the region of interest, as `Roi.to_text` has it; None: all of a frame

    @property
    def region(self) -> Roi | None:
        """The region of interest; None where all of a frame is segmented."""
        return None if self.roi is None else Roi.of_text(self.roi, (self.height, self.width))

    def to_record(self) -> dict[str, Any]:
        """Return the header as the attributes have it: `source` and `configuration`."""
        source = dataclasses.asdict(self)
        configuration = source.pop("configuration")
        if self.stretch is None:  # as it was before there were any
            del source["stretch"]
        source.update(rate=str(self.rate), time_base=str(self.time_base))
        if self.roi is None:
            del source["roi"]  # as in volumes of builds that knew none
        return {"source": source, "configuration": configuration}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Header:
        """Return the header that `to_record` wrote."""
        source = dict(record["source"])
        source.update({name: Fraction(source[name]) for name in ("rate", "time_base")})
        return cls(**source, configuration=record["configuration"])


def tile(height: int, width: int) -> tuple[int, int]:
    """Return the height and width of a chunk: whole frames up to 720p, even tiles above."""
    rows = -(-height // _TILE_HEIGHT)
    columns = -(-width // _TILE_WIDTH)
    if rows == columns == 1 or height * width <= _TILE_HEIGHT * _TILE_WIDTH:
        return height, width
    return -(-height // rows), -(-width // columns)


def build(root: zarr.Group, header: Header, chunk_rows: int = ROWS) -> None:
    """Create every node of an empty volume inside `root`; chunk_rows: of a column in one chunk."""
    scale = float(1 / header.rate)
    chunk = tile(header.height, header.width)
    root.create_group("labels", attributes={"ome": {"version": NGFF, "labels": ["ids"]}})
    create_labels(root, "ids", header)
    if header.with_video:
        root.update_attributes({"ome": _multiscales("video", "tcyx", scale)})
        with _delta_without_warning():
            root.create_array(
                "0",
                shape=(0, 3, header.height, header.width),
                chunks=(CHUNK_FRAMES, 3, *chunk),
                dtype=np.uint8,
                filters=[TransposeCodec(order=FRAME_ORDER), Delta(dtype="|u1")],
                compressors=[ZstdCodec(level=_FRAME_LEVEL), Crc32cCodec()],
                fill_value=0,
                dimension_names=("t", "c", "y", "x"),
            )
    _create_column(root, "time", Column(np.dtype(np.float64), None, None), "t", chunk_rows)
    root.update_attributes({"coordinates": "time"})  # to xarray: not data, but where they lie
    for table, columns in TABLES.items():
        group = root.create_group(table)
        for name, column in columns.items():
            _create_column(group, name, column, "row", chunk_rows)
        offsets = Column(np.dtype(np.uint64), None, None)
        _create_column(group, "offsets", offsets, "bound", chunk_rows)
    for table in FINAL_TABLES:
        create_final_table(root, table, chunk_rows)
    root.create_group("resume")


def create_labels(root: zarr.Group, name: str, header: Header) -> StoredArray:
    """Create a label image `labels/name`, without frames; return its array."""
    scale = float(1 / header.rate)
    image_label = {"source": {"image": "../../"}} if header.with_video else {}
    group = group_in(root, "labels").create_group(
        name,
        attributes={"ome": {**_multiscales(name, "tyx", scale), "image-label": image_label}},
    )
    array = group.create_array(
        "0",
        shape=(0, header.height, header.width),
        chunks=(CHUNK_FRAMES, *tile(header.height, header.width)),
        dtype=np.uint32,
        filters=[TransposeCodec(order=LABEL_ORDER)],
        compressors=[ZstdCodec(level=_LEVEL), Crc32cCodec()],
        fill_value=0,
        dimension_names=("t", "y", "x"),
    )
    return StoredArray(array)


def labels_in(root: zarr.Group) -> list[str]:
    """Return the names of the label images of a volume."""
    ome: Any = group_in(root, "labels").attrs["ome"]
    return list(ome["labels"])


def copy_record(root: zarr.Group, record: Mapping[str, Any]) -> None:
    """Repeat what a volume says of itself, for the day on which the root document is damaged."""
    group_in(root, "labels").attrs[COPY] = dict(record)


def list_labels(root: zarr.Group, names: Sequence[str]) -> None:
    """Say which label images a volume has."""
    group_in(root, "labels").attrs["ome"] = {"version": NGFF, "labels": list(names)}


def create_final_table(root: zarr.Group, table: str, chunk_rows: int) -> None:
    """Create one of FINAL_TABLES, without rows; what is there under its name is replaced."""
    axis, dtype = FINAL_TABLES[table]
    group = root.create_group(table, overwrite=True)
    for name, column in columns_of(dtype).items():
        _create_column(group, name, column, axis, chunk_rows)


def write_final_table(root: zarr.Group, table: str, rows: NDArray[Any]) -> None:
    """Write all rows of one of FINAL_TABLES; those that were there are replaced."""
    for name in rows.dtype.names or ():
        column = array_in(root, f"{table}/{name}")
        column.resize((len(rows), *column.shape[1:]))
        column[:] = rows[name]


def schema_with_levels(root: zarr.Group) -> int:
    """Return the schema of a volume that has its levels: what its arrays are like decides."""
    return SCHEMA if array_in(root, "labels/ids/0").checksummed else WITHOUT_CHECKSUMS


def read_offsets(root: zarr.Group, table: str, frames: int) -> NDArray[np.int64]:
    """Return where the rows of each of the first frames begin, and where the last end: (t + 1)."""
    if not frames:
        return np.zeros(1, dtype=np.int64)
    array = array_in(root, f"{table}/offsets")
    offsets = array[: frames + 1].astype(np.int64)
    fewest = 1 if table == "segments" else 0  # of a frame
    if offsets[0] != 0 or (np.diff(offsets) < fewest).any():
        raise SinkError(f"{place_of(root)}: {table}/offsets is damaged (it must rise from 0)")
    return offsets


def whole_frames(offsets: NDArray[np.int64], at_once: int) -> Iterator[tuple[int, int]]:
    """Yield the first frame, and the one after the last, of stretches of at most so many rows.

    A frame that has more rows is a stretch of its own.
    """
    first, frames = 0, len(offsets) - 1
    while first < frames:
        fitting = int(np.searchsorted(offsets, offsets[first] + at_once, side="right")) - 1
        last = min(max(fitting, first + 1), frames)
        yield first, last
        first = last


def stretches(
    root: zarr.Group,
    table: str,
    offsets: NDArray[np.int64],
    dtype: np.dtype[Any],
    at_once: int = AT_ONCE,
) -> Iterator[NDArray[Any]]:
    """Yield all rows of a table that grows with the frames, whole frames at a time."""
    for first, last in whole_frames(offsets, at_once):
        rows = read_rows(root, table, int(offsets[first]), int(offsets[last]), dtype)
        counts = np.diff(offsets[first : last + 1])
        if "frame" in (dtype.names or ()) and not np.array_equal(
            rows["frame"], np.repeat(np.arange(first, last), counts)
        ):
            raise SinkError(f"{place_of(root)}: {table}/frame is damaged (it is not in order)")
        yield rows


def read_rows(
    root: zarr.Group, table: str, start: int, stop: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Return rows of a table; the columns are those `dtype` names."""
    rows = np.empty(max(0, stop - start), dtype=dtype)
    frames = array_in(root, "labels/ids/0").shape[0]  # that there may be
    for name in dtype.names or ():
        values = array_in(root, f"{table}/{name}")[start:stop]
        if len(values) < len(rows):
            wrong: str | None = f"has rows up to {start + len(values)}, not {stop}"
        else:
            rows[name] = values
            wrong = implausible(table, name, values, frames)
        if wrong is not None:
            raise SinkError(f"{place_of(root)}: {table}/{name} is damaged ({wrong})")
    return rows


def open_group(path: Target | SnapshotStore, mode: Literal["r", "r+"] = "r") -> zarr.Group:
    """Open the group of a volume; a SinkError if Zarr cannot."""
    store: Any = path
    try:
        # what others may have put together of the metadata is not kept up to date by us
        if isinstance(path, Path):
            store = GuardedStore(path) if mode == "r+" else str(path)
        elif isinstance(path, Address):
            store = path.store
        return zarr.open_group(store, mode=mode, zarr_format=3, use_consolidated=False)
    except SinkError:
        raise
    except OSError as error:
        raise SinkError(f"{path}: cannot be read ({error.strerror or error})") from error
    except Exception as error:  # whatever Zarr makes of what else the metadata says
        raise SinkError(f"{path}: metadata is damaged (zarr.json: {error})") from error


def array_in(root: zarr.Group, path: str) -> StoredArray:
    """Return an array of a volume; a SinkError if it is missing."""
    array = _node(root, path)
    if not isinstance(array, zarr.Array):
        raise _missing(root, path)
    return StoredArray(array)


def has_video(root: zarr.Group) -> bool:
    """Whether a volume has its frames."""
    record: Any = root.attrs[KEY]
    return bool(record["source"]["with_video"])


def video_in(root: zarr.Group) -> StoredArray:
    """Return the array of frames of a volume; a SinkError if it is missing."""
    with _delta_without_warning():
        return array_in(root, "0")


def group_in(root: zarr.Group, path: str) -> zarr.Group:
    """Return a group of a volume; a SinkError if it is missing."""
    group = _node(root, path)
    if not isinstance(group, zarr.Group):
        raise _missing(root, path)
    return group


def _node(root: zarr.Group, path: str) -> zarr.Array[Any] | zarr.Group:
    try:
        return root[path]
    except KeyError as error:
        raise _missing(root, path) from error
    except Exception as error:  # whatever Zarr makes of metadata that is not its own
        raise SinkError(f"{place_of(root)}: the metadata of {path} is damaged ({error})") from error


def _missing(root: zarr.Group, path: str) -> SinkError:
    return SinkError(f"{place_of(root)}: a part of the volume is missing ({path})")


@contextmanager
def _delta_without_warning() -> Iterator[None]:
    """Keep Zarr 3.1 from warning that differences are not in its specification; later ones do not.

    It means other implementations: zarr-python itself reads them wherever it is installed.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Numcodecs codecs", ZarrUserWarning)
        yield


def _create_column(
    group: zarr.Group, name: str, column: Column, rows: str, chunk_rows: int
) -> None:
    width = () if column.width is None else (column.width,)
    group.create_array(
        name,
        shape=(0, *width),
        chunks=(chunk_rows, *width),
        dtype=column.dtype,
        filters=[TransposeCodec(order=(1, 0))] if width else [],
        compressors=[ZstdCodec(level=_COLUMN_LEVEL), Crc32cCodec()],
        fill_value=0,
        dimension_names=(rows, column.dimension) if width else (rows,),
    )


def _multiscales(name: str, axes: str, seconds: float) -> dict[str, Any]:
    kinds = {
        "t": {"type": "time", "unit": "second"},
        "c": {"type": "channel"},
        "y": {"type": "space"},
        "x": {"type": "space"},
    }
    scale = [seconds if axis == "t" else 1.0 for axis in axes]
    return {
        "version": NGFF,
        "multiscales": [
            {
                "name": name,
                "axes": [{"name": axis, **kinds[axis]} for axis in axes],
                "datasets": [
                    {
                        "path": "0",
                        "coordinateTransformations": [{"type": "scale", "scale": scale}],
                    }
                ],
            }
        ],
    }
