"""Volumes as earlier builds wrote them: without checksums, and without chunks of zeros."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import zarr

from aaams_stream.store.layout import KEY
from aaams_stream.store.validate import CHECKSUM, sealed


def edit_record(path: Path, **changes: object) -> None:
    """Change our attributes of a volume; None takes one away. Their checksum is made anew."""
    document = json.loads((path / "zarr.json").read_text())
    record = {**document["attributes"][KEY], **changes}
    record = {name: value for name, value in record.items() if value is not None}
    document["attributes"][KEY] = sealed(record) if CHECKSUM in record else record
    (path / "zarr.json").write_text(json.dumps(document))


def make_older(path: Path, schema: int = 3) -> None:
    """Make a volume one of schema 3, as earlier builds wrote it."""
    for metadata in path.rglob("zarr.json"):
        document = json.loads(metadata.read_text())
        codecs = document.get("codecs", [])
        if codecs and codecs[-1]["name"] == "crc32c":
            for chunk in [file for file in metadata.parent.glob("c/**/*") if file.is_file()]:
                chunk.write_bytes(chunk.read_bytes()[:-4])
            document["codecs"] = codecs[:-1]
            metadata.write_text(json.dumps(document))
            if metadata.parent.parent.name in ("segments", "adjacency", "events", "tracks"):
                _drop_zeros(metadata.parent)
    edit_record(path, schema=schema, checksum=None)


def _drop_zeros(folder: Path) -> None:
    array = zarr.open_array(str(folder), mode="r")
    for at in range(0, array.shape[0], array.chunks[0]):
        if not np.any(array[at : at + array.chunks[0]]):
            name = "/".join(["c", str(at // array.chunks[0]), *["0"] * (array.ndim - 1)])
            (folder / name).unlink()
