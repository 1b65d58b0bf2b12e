"""The one door to a volume: what its metadata says is checked before anything is believed.

Every field of our attributes has its type and range, every array its dtype, shape, chunks and
codecs; what differs is a SinkError that names it. Reads the JSON files alone, a few milliseconds.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from zarr.core.group import GroupMetadata

from aaams_stream.errors import SinkError
from aaams_stream.store.address import Target, exists, read_ahead, read_document
from aaams_stream.store.fields import (
    FIELDS,
    SOURCE_FIELDS,
    is_counts,
    is_int,
    is_number,
    is_region,
)
from aaams_stream.store.layout import (
    CHUNK_FRAMES,
    COPY,
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
from aaams_stream.store.shards import unsharded

CHECKSUM = "checksum"  # over the rest of our attributes
COUNTS = "counts"  # how many identities and events there are
_MOST_CHUNK_ROWS = 2**22
_MOST_BEYOND = 2**20  # chunks that a crash may leave behind those that count
_LABEL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")


class Place(NamedTuple):
    """Where something is wrong, for the text of an error."""

    volume: Target
    node: str  # within the volume; "" for the attributes

    def wrong(self, what: str) -> SinkError:
        """Return the error for what is wrong here."""
        where = f"{self.node}/zarr.json" if self.node else "zarr.json"
        remedy = "" if self.node else f"; {_remedy(self.volume)}"
        return SinkError(f"{self.volume}: metadata is damaged ({where}: {what}){remedy}")


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return our attributes with a checksum over them."""
    plain = {name: value for name, value in record.items() if name != CHECKSUM}
    text = json.dumps(plain, sort_keys=True)
    return {**plain, CHECKSUM: f"{zlib.crc32(text.encode()):08x}"}


def check_volume(path: Target) -> dict[str, Any]:
    """Return our attributes of the volume at `path` when all of its metadata is sound."""
    record = read_record(path)
    check_nodes(path, record)
    return record


def read_record(path: Target) -> dict[str, Any]:
    """Return our attributes of the volume at `path` when they are sound."""
    if not exists(path):
        raise SinkError(f"{path}: no such volume")
    document = _document(path, "")
    attributes = document.get("attributes")
    record = attributes.get(KEY) if isinstance(attributes, dict) else None
    if not isinstance(record, dict):
        if kept_record(path) is not None:
            raise Place(path, "").wrong(f"{KEY} is missing")
        raise SinkError(f"{path}: a Zarr group, but not a volume of ours")
    check_record(path, record)
    if (document.get("node_type"), document.get("zarr_format")) != ("group", 3):
        raise Place(path, "").wrong("must be a group of Zarr 3")
    return record


def kept_record(path: Target) -> dict[str, Any] | None:
    """Return our attributes as the group of labels repeats them; None unless they are sound.

    Of a volume that is not complete they say what was so when it was begun.
    """
    try:
        record = _document(path, "labels")["attributes"][COPY]
        check_record(path, dict(record), "labels")
    except (SinkError, KeyError, TypeError, ValueError):
        return None
    return dict(record)


def _remedy(path: Target) -> str:
    """Say what there is to do where the root document is damaged."""
    if kept_record(path) is None:
        return "nothing else says what it was made of: segment its source under another name"
    if isinstance(path, Path):
        return f"aaams-stream check {path} --repair writes it anew"
    return "copy it to a folder here, where check --repair writes it anew"


def check_record(path: Target, record: Mapping[str, Any], node: str = "") -> None:
    """Raise a SinkError unless our attributes have all fields, each of its type and in its range.

    A volume of another schema is told apart from a damaged one. node: where they stand.
    """
    schema = record.get("schema")
    if not is_int(schema) or schema not in READABLE:
        readable = ", ".join(map(str, READABLE[:-1]))
        raise SinkError(
            f"{path}: has schema version {_short(schema)}, this program reads {readable} and "
            f"{READABLE[-1]}; use the version that wrote it "
            f"({_short(record.get('version', 'unknown'))})"
        )
    place = Place(path, node)
    if CHECKSUM in record or schema >= SCHEMA:
        try:
            expected = sealed(record)[CHECKSUM]
        except (ValueError, RecursionError) as error:
            raise place.wrong(str(error)) from None
        if record.get(CHECKSUM) != expected:
            raise place.wrong(f"{KEY}: the checksum does not match")
    for name, (holds, expected) in FIELDS.items():
        if name not in record:
            raise place.wrong(f"{name} is missing")
        if not holds(record[name]):
            raise place.wrong(f"{name} must be {expected}, got {_short(record[name])}")
    source = record["source"]
    for name, (holds, expected) in SOURCE_FIELDS.items():
        if name not in source:
            raise place.wrong(f"source.{name} is missing")
        if not holds(source[name]):
            raise place.wrong(f"source.{name} must be {expected}, got {_short(source[name])}")
    if "roi" in source and not is_region(source["roi"], (source["height"], source["width"])):
        raise place.wrong("source.roi must be a mask of the size of the frames")
    if "stretch" in source and not (is_number(source["stretch"]) and source["stretch"] > 0):
        raise place.wrong(f"source.stretch must be seconds, got {_short(source['stretch'])}")
    unknown = sorted(set(source) - set(SOURCE_FIELDS) - {"stretch", "roi"})
    if unknown:
        raise place.wrong(f"source.{_short(unknown[0])} is unknown")
    if COUNTS in record and not is_counts(record[COUNTS]):
        raise place.wrong(f"{COUNTS} must be numbers of identities and events")


class _Spec(NamedTuple):
    """What the metadata of one array must say."""

    dtype: np.dtype[Any]
    inner: tuple[int, ...]  # its size behind the first axis
    chunk: tuple[int, ...]  # of a chunk behind the first axis
    frames: bool  # whether a chunk has CHUNK_FRAMES; else it has as many rows as every column
    orders: tuple[tuple[int, ...] | None, ...]  # in which a chunk's axes may be kept
    delta: bool = False  # as differences, where an order is given


def check_nodes(
    path: Target, record: Mapping[str, Any], damaged: dict[str, str] | None = None
) -> None:
    """Raise a SinkError unless every group and array of a volume is there and as it should be.

    With `damaged`, what is wrong is noted there by node instead.
    """
    source = record["source"]
    size = (source["height"], source["width"])
    frames, complete = record["frames_committed"], record["complete"]
    read_ahead(path, _usual_nodes(record))
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


def _usual_nodes(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield the groups and arrays that a volume has; coarse labels may come on top."""
    yield from ("labels", "labels/ids", "labels/ids/0", "time")
    yield from ["0"] * record["source"]["with_video"]
    tables = {table: [*columns, "offsets"] for table, columns in TABLES.items()}
    left_out = LEVEL_TABLES if record["schema"] == WITHOUT_LEVELS else ()
    for table, (_, dtype) in FINAL_TABLES.items():
        if table not in left_out:
            tables[table] = list(columns_of(dtype))
    for table, names in tables.items():
        yield table
        yield from (f"{table}/{name}" for name in names)


def _column_spec(column: Column) -> _Spec:
    inner = () if column.width is None else (column.width,)
    return _Spec(column.dtype, inner, inner, False, ((1, 0),) if inner else (None,))


def _listed_labels(path: Target) -> Iterator[str]:
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
        self, path: Target, strict: bool, complete: bool, damaged: dict[str, str] | None
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
            document = _document(self._path, node)
            if document.get("node_type") != "group" or document.get("zarr_format") != 3:
                raise place.wrong("must be a group of Zarr 3")
            try:
                GroupMetadata.from_dict(document)
            except Exception as error:  # whatever Zarr makes of what else it says
                raise place.wrong(str(error)) from error

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
        try:  # only what is complete was packed
            document = unsharded(document) if self._complete else document
        except ValueError as error:
            raise place.wrong(str(error)) from None
        _require(place, "data_type", document.get("data_type"), spec.dtype.name)
        shape = document.get("shape")
        if not isinstance(shape, list) or not shape or not all(map(is_int, shape)):
            raise place.wrong(f"shape must be numbers, got {_short(shape)}")
        _require(place, "shape", shape[1:], list(spec.inner))
        grid = document.get("chunk_grid")
        if not isinstance(grid, dict) or grid.get("name") != "regular":
            raise place.wrong("chunk_grid must be regular")
        sizes = _configuration(grid).get("chunk_shape")
        if not isinstance(sizes, list) or not sizes or not is_int(sizes[0], 1, _MOST_CHUNK_ROWS):
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
        return is_int(level, -(2**17), 22) and isinstance(checksum, bool)
    if wanted[0] == "bytes" and not wanted[1]:  # of single bytes the order does not matter
        return told[1] in ({}, {"endian": "little"})
    return bool(told[1] == wanted[1])


def _configuration(entry: Mapping[str, Any]) -> dict[str, Any]:
    found = entry.get("configuration", {})
    return found if isinstance(found, dict) else {"": found}


def _require(place: Place, name: str, value: object, expected: object) -> None:
    if isinstance(value, bool) or value != expected:
        raise place.wrong(f"{name} must be {expected}, got {_short(value)}")


def _document(path: Target, node: str) -> dict[str, Any]:
    """Return the metadata of a node."""
    place = Place(path, node)
    try:
        document = json.loads(read_document(path, node))
    except OSError as error:
        if isinstance(error, SinkError):
            raise
        if not node and kept_record(path) is not None:
            raise place.wrong(error.strerror or str(error)) from error
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            told = error.strerror or error
            raise SinkError(f"{path}: cannot be read ({node} {told})") from error
        if not node:
            raise SinkError(f"{path}: not a volume of ours (no Zarr v3 group)") from error
        raise SinkError(f"{path}: a part of the volume is missing ({node})") from error
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
