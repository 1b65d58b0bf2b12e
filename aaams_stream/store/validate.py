"""The one door to a volume: what its metadata says is checked before anything is believed.

Every field of our attributes has its type and range, every array its dtype, shape, chunks and
codecs; what differs is a SinkError that names it. Reads the JSON files alone, a few milliseconds.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aaams_stream.errors import SinkError
from aaams_stream.model import EventKind
from aaams_stream.store.layout import (
    CHUNK_FRAMES,
    FINAL_TABLES,
    FRAME_ORDER,
    KEY,
    LABEL_ORDER,
    LEVEL_TABLES,
    READABLE,
    SCHEMA,
    TABLES,
    WITHOUT_LEVELS,
    Column,
    columns_of,
    tile,
)

CHECKSUM = "checksum"  # over the rest of our attributes
COUNTS = "counts"  # how many identities and events there are
_MOST_FRAMES = 2**32  # tables count them in uint32
_MOST_SIDE = 2**20
_MOST_CHUNK_ROWS = 2**22
_MOST_BEYOND = 2**20  # chunks that a crash may leave behind those that count
_RATIO = re.compile(r"[0-9]{1,40}(/[0-9]{1,40})?")
_LABEL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


class Place(NamedTuple):
    """Where something is wrong, for the text of an error."""

    volume: Path
    node: str  # within the volume; "" for the attributes

    def wrong(self, what: str) -> SinkError:
        """Return the error for what is wrong here."""
        where = f"{self.node}/zarr.json" if self.node else "zarr.json"
        return SinkError(f"{self.volume}: metadata is damaged ({where}: {what})")


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return our attributes with a checksum over them."""
    plain = {name: value for name, value in record.items() if name != CHECKSUM}
    text = json.dumps(plain, sort_keys=True)
    return {**plain, CHECKSUM: f"{zlib.crc32(text.encode()):08x}"}


def check_volume(path: Path) -> dict[str, Any]:
    """Return our attributes of the volume at `path` when all of its metadata is sound."""
    record = read_record(path)
    check_nodes(path, record)
    return record


def read_record(path: Path) -> dict[str, Any]:
    """Return our attributes of the volume at `path` when they are sound."""
    try:
        found = path.exists()
    except OSError as error:
        raise SinkError(f"{path}: cannot be read ({error.strerror})") from error
    if not found:
        raise SinkError(f"{path}: no such volume")
    document = _document(path, "")
    attributes = document.get("attributes")
    record = attributes.get(KEY) if isinstance(attributes, dict) else None
    if not isinstance(record, dict):
        raise SinkError(f"{path}: a Zarr group, but not a volume of ours")
    check_record(path, record)
    return record


def check_record(path: Path, record: Mapping[str, Any]) -> None:
    """Raise a SinkError unless our attributes have all fields, each of its type and in its range.

    A volume of another schema is told apart from a damaged one.
    """
    schema = record.get("schema")
    if not _is_int(schema) or schema not in READABLE:
        readable = ", ".join(map(str, READABLE[:-1]))
        raise SinkError(
            f"{path}: has schema version {_short(schema)}, this program reads {readable} and "
            f"{READABLE[-1]}; use the version that wrote it "
            f"({_short(record.get('version', 'unknown'))})"
        )
    place = Place(path, "")
    if CHECKSUM in record or schema >= SCHEMA:
        try:
            expected = sealed(record)[CHECKSUM]
        except (ValueError, RecursionError) as error:
            raise place.wrong(str(error)) from None
        if record.get(CHECKSUM) != expected:
            raise place.wrong(f"{KEY}: the checksum does not match")
    for name, (holds, expected) in _FIELDS.items():
        if name not in record:
            raise place.wrong(f"{name} is missing")
        if not holds(record[name]):
            raise place.wrong(f"{name} must be {expected}, got {_short(record[name])}")
    source = record["source"]
    for name, (holds, expected) in _SOURCE_FIELDS.items():
        if name not in source:
            raise place.wrong(f"source.{name} is missing")
        if not holds(source[name]):
            raise place.wrong(f"source.{name} must be {expected}, got {_short(source[name])}")
    unknown = sorted(set(source) - set(_SOURCE_FIELDS))
    if unknown:
        raise place.wrong(f"source.{_short(unknown[0])} is unknown")
    if COUNTS in record and not _is_counts(record[COUNTS]):
        raise place.wrong(f"{COUNTS} must be numbers of identities and events")


def _is_int(value: object, low: int = 0, high: int = 2**63) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return _is_int(value, -(2**63))


def _is_side(value: object) -> bool:
    return _is_int(value, 1, _MOST_SIDE)


def _is_ratio(value: object) -> bool:
    """Whether a text is a number above 0, as a fraction."""
    if not isinstance(value, str) or not _RATIO.fullmatch(value):
        return False
    return all(int(part) > 0 for part in value.split("/"))


def _is_selection(value: object) -> bool:
    """Whether this is what `Clip.to_record` returns; nothing for a stretch of a live stream."""
    if not isinstance(value, dict) or not set(value) <= {"start", "duration", "every", "size"}:
        return False
    size = value.get("size")
    return (
        all(value.get(name) is None or _is_number(value[name]) for name in ("start", "duration"))
        and _is_int(value.get("every", 1), 1)
        and (
            size is None or (isinstance(size, list) and len(size) == 2 and all(map(_is_side, size)))
        )
    )


def _is_configuration(value: object) -> bool:
    """Whether these are tables of settings; which ones there are is for Params to say."""
    return isinstance(value, dict) and all(
        isinstance(table, dict)
        and all(isinstance(v, str | bool) or _is_number(v) for v in table.values())
        for table in value.values()
    )


def _is_counts(value: object) -> bool:
    if not isinstance(value, dict) or set(value) != {"identities", "events"}:
        return False
    events, kinds = value["events"], {kind.name.lower() for kind in EventKind}
    return (
        _is_int(value["identities"], 0, 2**32 - 1)
        and isinstance(events, dict)
        and set(events) <= kinds
        and all(map(_is_int, events.values()))
    )


_Field = tuple[Callable[[Any], bool], str]
_FIELDS: dict[str, _Field] = {
    "version": (lambda v: isinstance(v, str), "a text"),
    "source": (lambda v: isinstance(v, dict), "a table"),
    "configuration": (_is_configuration, "tables of settings"),
    "frames_committed": (lambda v: _is_int(v, 0, _MOST_FRAMES), "a number of frames"),
    "complete": (lambda v: isinstance(v, bool), "true or false"),
    "ended": (lambda v: isinstance(v, str), "a text"),
}
_SOURCE_FIELDS: dict[str, _Field] = {
    "width": (_is_side, "a number of pixels"),
    "height": (_is_side, "a number of pixels"),
    "rate": (_is_ratio, "a fraction above 0"),
    "time_base": (_is_ratio, "a fraction above 0"),
    "spec": (lambda v: isinstance(v, str), "a text"),
    "fingerprint": (lambda v: v is None or isinstance(v, str), "a text or null"),
    "selection": (_is_selection, "start, duration, every and size"),
    "with_video": (lambda v: isinstance(v, bool), "true or false"),
}


class _Spec(NamedTuple):
    """What the metadata of one array must say."""

    dtype: np.dtype[Any]
    inner: tuple[int, ...]  # its size behind the first axis
    chunk: tuple[int, ...]  # of a chunk behind the first axis
    frames: bool  # whether a chunk has CHUNK_FRAMES; else it has as many rows as every column
    orders: tuple[tuple[int, ...] | None, ...]  # in which a chunk's axes may be kept
    delta: bool = False  # as differences, where an order is given


def check_nodes(
    path: Path, record: Mapping[str, Any], damaged: dict[str, str] | None = None
) -> None:
    """Raise a SinkError unless every group and array of a volume is there and as it should be.

    With `damaged`, what is wrong is noted there by node instead.
    """
    source = record["source"]
    size = (source["height"], source["width"])
    frames, complete = record["frames_committed"], record["complete"]
    checker = _Checker(path, record["schema"] == SCHEMA, complete, damaged)
    checker.group("labels")
    ids = _Spec(np.dtype(np.uint32), size, tile(*size), True, (LABEL_ORDER,))
    checker.group("labels/ids")
    checker.frames("labels/ids/0", ids, frames)
    for name in checker.labels():
        if name != "ids":
            checker.group(f"labels/{name}")
            checker.frames(f"labels/{name}/0", ids, frames)
    if source["with_video"]:
        orders = (FRAME_ORDER, None)  # those before were kept as they are
        video = _Spec(np.dtype(np.uint8), (3, *size), (3, *tile(*size)), True, orders, delta=True)
        checker.frames("0", video, frames)
    checker.frames("time", _column_spec(Column(np.dtype(np.float64), None, None)), frames)
    offsets = _column_spec(Column(np.dtype(np.uint64), None, None))
    for table, columns in TABLES.items():
        checker.group(table)
        checker.table(table, columns)
        # an empty volume has its first bound or, before the first commit, none
        least = frames + 1 if frames or complete else 0
        checker.frames(f"{table}/offsets", offsets, least)
    for table, (_, dtype) in FINAL_TABLES.items():
        if table in LEVEL_TABLES and record["schema"] == WITHOUT_LEVELS:
            continue
        checker.group(table)
        checker.table(table, columns_of(dtype))


def _column_spec(column: Column) -> _Spec:
    inner = () if column.width is None else (column.width,)
    return _Spec(column.dtype, inner, inner, False, ((1, 0),) if inner else (None,))


def _listed_labels(path: Path) -> Iterator[str]:
    """Yield the names of the label images that a volume says it has."""
    place = Place(path, "labels")
    attributes = _document(path, "labels").get("attributes")
    ome = attributes.get("ome") if isinstance(attributes, dict) else None
    names = ome.get("labels") if isinstance(ome, dict) else None
    if not isinstance(names, list) or "ids" not in names:
        raise place.wrong("ome.labels must list ids")
    for name in names:
        if not isinstance(name, str) or not _LABEL_NAME.fullmatch(name) or name.startswith("."):
            raise place.wrong(f"ome.labels must be names, got {_short(name)}")
        yield name


class _Checker:
    """Compares nodes of one volume with what they should be."""

    def __init__(
        self, path: Path, strict: bool, complete: bool, damaged: dict[str, str] | None
    ) -> None:
        self._path = path
        self._damaged = damaged  # where failures are noted; None: they are raised
        self._strict = strict  # every chunk has a checksum
        self._complete = complete
        self._chunk_rows: int | None = None  # as of the first column that was met

    @contextmanager
    def _at(self, node: str) -> Iterator[Place]:
        try:
            yield Place(self._path, node)
        except SinkError as error:
            if self._damaged is None:
                raise
            self._damaged.setdefault(node, str(error))

    def group(self, node: str) -> None:
        """Check a group."""
        with self._at(node) as place:
            if _document(self._path, node).get("node_type") != "group":
                raise place.wrong("must be a group")

    def labels(self) -> list[str]:
        """Return the names of the label images that the volume says it has."""
        with self._at("labels"):
            return list(_listed_labels(self._path))
        return []

    def frames(self, node: str, spec: _Spec, frames: int) -> None:
        """Check an array with a row per frame."""
        with self._at(node) as place:
            rows, chunk = self._array(node, spec)
            if rows < frames or (self._complete and rows > frames):
                raise place.wrong(f"must have {frames} frames, has {rows}")
            if rows - frames > _MOST_BEYOND * chunk:
                raise place.wrong(f"has {rows} frames, of which {frames} count")

    def table(self, table: str, columns: Mapping[str, Column]) -> None:
        """Check the columns of a table."""
        lengths: dict[str, int] = {}
        for name, column in columns.items():
            with self._at(f"{table}/{name}") as place:
                rows, chunk = self._array(place.node, _column_spec(column))
                if rows > _MOST_BEYOND * chunk:
                    raise place.wrong(f"has {rows} rows")
                lengths[name] = rows
        usual = max(lengths.values(), key=list(lengths.values()).count, default=0)
        for name, rows in lengths.items() if self._complete else ():
            with self._at(f"{table}/{name}") as place:
                if rows != usual:
                    raise place.wrong(f"has {rows} rows and not {usual}, as the others of {table}")

    def _array(self, node: str, spec: _Spec) -> tuple[int, int]:
        """Check an array; return its size and that of a chunk along the first axis."""
        place = Place(self._path, node)
        document = _document(self._path, node)
        if document.get("node_type") != "array" or document.get("zarr_format") != 3:
            raise place.wrong("must be an array of Zarr 3")
        _require(place, "data_type", document.get("data_type"), spec.dtype.name)
        shape = document.get("shape")
        if not isinstance(shape, list) or not shape or not all(map(_is_int, shape)):
            raise place.wrong(f"shape must be numbers, got {_short(shape)}")
        _require(place, "shape", shape[1:], list(spec.inner))
        grid = document.get("chunk_grid")
        if not isinstance(grid, dict) or grid.get("name") != "regular":
            raise place.wrong("chunk_grid must be regular")
        sizes = _configuration(grid).get("chunk_shape")
        if not isinstance(sizes, list) or not sizes or not _is_int(sizes[0], 1, _MOST_CHUNK_ROWS):
            raise place.wrong(f"chunk_shape must be numbers, got {_short(sizes)}")
        if not spec.frames and self._chunk_rows is None:
            self._chunk_rows = sizes[0]
        along = CHUNK_FRAMES if spec.frames else self._chunk_rows
        _require(place, "chunk_shape", sizes, [along, *spec.chunk])
        _require(place, "fill_value", document.get("fill_value"), 0)
        keys = document.get("chunk_key_encoding")
        keys = keys if isinstance(keys, dict) else {}
        if _configuration(keys).get("separator", "/") != "/" or keys.get("name") != "default":
            raise place.wrong("chunk_key_encoding must be the default one")
        if document.get("storage_transformers"):
            raise place.wrong("storage_transformers must be none")
        self._check_codecs(place, document.get("codecs"), spec)
        return shape[0], sizes[0]

    def _check_codecs(self, place: Place, codecs: object, spec: _Spec) -> None:
        if not isinstance(codecs, list) or not all(isinstance(c, dict) for c in codecs):
            raise place.wrong("codecs must be a list")
        told = [(codec.get("name"), _configuration(codec)) for codec in codecs]
        endian = {"endian": "little"} if spec.dtype.itemsize > 1 else {}
        for order in spec.orders:
            wanted: list[tuple[str, dict[str, Any]]] = []
            if order is not None:
                wanted.append(("transpose", {"order": list(order)}))
                if spec.delta:
                    wanted.append(("numcodecs.delta", {"dtype": spec.dtype.str}))
            wanted += [("bytes", endian), ("zstd", {})]
            if self._strict or (told and told[-1][0] == "crc32c"):
                wanted.append(("crc32c", {}))
            if len(told) == len(wanted) and all(map(_is_codec, told, wanted)):
                return
        raise place.wrong(f"codecs are not those of {place.node}")


def _is_codec(told: tuple[Any, Any], wanted: tuple[str, dict[str, Any]]) -> bool:
    """Whether a codec is the one that is wanted; zstd reads every level."""
    if told[0] != wanted[0]:
        return False
    if wanted[0] == "zstd":
        level, checksum = told[1].get("level", 0), told[1].get("checksum", False)
        return _is_int(level, -(2**17), 22) and isinstance(checksum, bool)
    if wanted[0] == "bytes" and not wanted[1]:  # of single bytes the order does not matter
        return told[1] in ({}, {"endian": "little"})
    return bool(told[1] == wanted[1])


def _configuration(entry: Mapping[str, Any]) -> dict[str, Any]:
    found = entry.get("configuration", {})
    return found if isinstance(found, dict) else {"": found}


def _require(place: Place, name: str, value: object, expected: object) -> None:
    if isinstance(value, bool) or value != expected:
        raise place.wrong(f"{name} must be {expected}, got {_short(value)}")


def _document(path: Path, node: str) -> dict[str, Any]:
    """Return the metadata of a node."""
    place = Place(path, node)
    try:
        document = json.loads((path / node / "zarr.json").read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        if not node:
            raise SinkError(f"{path}: not a volume of ours (no Zarr v3 group)") from error
        raise SinkError(f"{path}: a part of the volume is missing ({node})") from error
    except OSError as error:
        raise SinkError(f"{path}: cannot be read ({node} {error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise place.wrong(str(error)) from error
    if not isinstance(document, dict):
        raise place.wrong("must be a table")
    return document


def _short(value: object) -> str:
    """Return a value for the text of an error, on one line."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of too many digits, tables within tables
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}…"
