"""Many chunks in one file, as Zarr's sharding codec has it: for volumes that are written once.

A shard is the encoded chunks one after the other, then an index of where each begins and how long
it is, then a checksum over the index. The chunks keep their bytes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import google_crc32c as crc32c
import numpy as np
import zarr
from zarr.abc.store import Store
from zarr.errors import ZarrUserWarning

_CODEC = "sharding_indexed"
_INDEX_CODECS = [
    {"name": "bytes", "configuration": {"endian": "little"}},
    {"name": "crc32c"},
]
_NOTHING = np.iinfo(np.uint64).max  # where a chunk begins that is not there
_CHECKSUM = 4  # bytes


def sharded(document: Mapping[str, Any], shard: Sequence[int]) -> dict[str, Any]:
    """Return the metadata of an array whose chunks are put together in shards of a shape."""
    inner = document["chunk_grid"]["configuration"]["chunk_shape"]
    grid = {"name": "regular", "configuration": {"chunk_shape": list(shard)}}
    codec = {
        "name": _CODEC,
        "configuration": {
            "chunk_shape": inner,
            "codecs": document["codecs"],
            "index_codecs": _INDEX_CODECS,
            "index_location": "end",
        },
    }
    return {**document, "chunk_grid": grid, "codecs": [codec]}


def unsharded(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of an array as it is without shards; a ValueError says what is odd."""
    codecs = document.get("codecs")
    if not isinstance(codecs, list) or len(codecs) != 1 or not isinstance(codecs[0], dict):
        return dict(document)
    if codecs[0].get("name") != _CODEC:
        return dict(document)
    try:
        told = codecs[0]["configuration"]
        inner, shard = told["chunk_shape"], document["chunk_grid"]["configuration"]["chunk_shape"]
        index = [(codec["name"], codec.get("configuration", {})) for codec in told["index_codecs"]]
        whole = all(
            n > 0 and size > 0 and n % size == 0 for n, size in zip(shard, inner, strict=True)
        )
        plain = {**document, "codecs": told["codecs"]}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError("shards are described wrongly") from None
    if index != [("bytes", {"endian": "little"}), ("crc32c", {})]:
        raise ValueError("the index of shards is kept otherwise")
    if told.get("index_location", "end") != "end" or not whole:
        raise ValueError("shards must be of whole chunks, with the index at the end")
    plain["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": inner}}
    return plain


def join_chunks(chunks: Sequence[bytes | None]) -> bytes:
    """Return a shard of encoded chunks, in the order of their places; None: it is not there."""
    index = np.full((len(chunks), 2), _NOTHING, "<u8")
    begin = 0
    for row, chunk in zip(index, chunks, strict=True):
        if chunk is not None:
            row[:] = begin, len(chunk)
            begin += len(chunk)
    table = index.tobytes()
    parts = [chunk for chunk in chunks if chunk is not None]
    return b"".join([*parts, table, crc32c.value(table).to_bytes(_CHECKSUM, "little")])


def split_shard(data: bytes, count: int) -> list[bytes | None]:
    """Return the encoded chunks of a shard of so many places; a ValueError if it is damaged."""
    length = 16 * count
    table = data[-length - _CHECKSUM : -_CHECKSUM]
    if len(table) != length or crc32c.value(table).to_bytes(_CHECKSUM, "little") != data[-4:]:
        raise ValueError("the checksum of the index does not match")
    chunks: list[bytes | None] = []
    for begin, size in np.frombuffer(table, "<u8").reshape(-1, 2).tolist():
        chunks.append(None if begin == _NOTHING else data[begin : begin + size])
    return chunks


def chunks_in(shard: Sequence[int], inner: Sequence[int]) -> int:
    """Return how many chunks a shard has room for."""
    return math.prod(n // size for n, size in zip(shard, inner, strict=True))


def consolidate(store: Store) -> None:
    """Repeat all metadata in the root document, so that readers ask once."""
    with _without_warnings():
        zarr.consolidate_metadata(store, zarr_format=3)


def is_consolidated(document: Mapping[str, Any]) -> bool:
    """Whether a root document repeats the others: then the volume was packed."""
    return isinstance(document.get("consolidated_metadata"), dict)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Keep Zarr from warning that this, and differences, are not in its specification yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZarrUserWarning)
        yield
