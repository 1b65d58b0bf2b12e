"""Masks: indexed and 16-bit PNG, and run lengths in the layout of YouTube-VIS."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.pool import rows_of
from aaams_stream.errors import SinkError
from aaams_stream.export.selection import Chosen
from aaams_stream.kernels import rle

Step = Callable[[], None]  # called after each frame
MOST_INDEXED, MOST_16_BIT = 2**8 - 1, 2**16 - 1
MOTS_CLASS = 1000  # a pixel of MOTS is its class times this, plus its instance


def write_davis(chosen: Chosen, folder: Path, step: Step) -> None:
    """Write one indexed PNG a frame, as DAVIS has them: 00000.png and so on.

    A pixel's value is its id, 0 where nothing passes. Where ids exceed 255, values count the ids
    instead, from 1, and ids.csv tells which is which; more than 255 ids do not fit.
    """
    values = _values(chosen, folder, "an indexed PNG", MOST_INDEXED)
    for t in chosen:
        pixels = rows_of(chosen.ids(t), values).astype(np.uint8)
        (folder / f"{t:05d}.png").write_bytes(indexed_png(pixels))
        step()


def write_mots(chosen: Chosen, folder: Path, step: Step) -> None:
    """Write one 16-bit PNG a frame, as KITTI MOTS has them: 000000.png and so on.

    A pixel's value is 1000 and its id: instance so and so of class 1; 0 where nothing passes. Where
    ids exceed 999, instances count the ids instead, from 1, and ids.csv tells which is which; more
    than 999 ids do not fit.
    """
    values = _values(chosen, folder, "a PNG of MOTS", MOTS_CLASS - 1)
    for t in chosen:
        instance = rows_of(chosen.ids(t), values)
        pixels = np.where(instance > 0, instance + MOTS_CLASS, 0).astype(">u2")
        (folder / f"{t:06d}.png").write_bytes(_png(pixels, 16, 0))
        step()


def _values(chosen: Chosen, folder: Path, what: str, most: int) -> NDArray[np.uint32]:
    """Return the id that each value stands for, 0 first: all up to `most`, or those that pass.

    The latter where ids exceed what a value can be; then ids.csv says which is which.
    """
    names = chosen.names()
    if len(names) > most:
        raise SinkError(
            f"{chosen.volume.path}: {what} holds {most} ids, and {len(names)} pass; choose fewer "
            "with --min-area, --min-life, --start and --duration, or export png16 or coco"
        )
    if names.max(initial=0) <= most:
        return np.arange(most + 1, dtype=np.uint32)
    lines = (f"{value},{name}" for value, name in enumerate(names, start=1))
    (folder / "ids.csv").write_text("\n".join(("value,id", *lines, "")), encoding="utf-8")
    return np.append(0, names).astype(np.uint32)


def write_png16(chosen: Chosen, folder: Path, step: Step) -> None:
    """Write one 16-bit grey PNG a frame; a pixel's value is its id, 0 where nothing passes."""
    most = int(chosen.names().max(initial=0))
    if most > MOST_16_BIT:
        raise SinkError(
            f"{chosen.volume.path}: a 16-bit PNG holds ids up to {MOST_16_BIT}, and the largest "
            f"is {most}; choose an earlier stretch with --start and --duration, or export coco"
        )
    for t in chosen:
        pixels = chosen.ids(t).astype(">u2")
        (folder / f"{t:05d}.png").write_bytes(_png(pixels, 16, 0))
        step()


def write_coco(chosen: Chosen, path: Path, step: Step) -> None:
    """Write all masks as run lengths in one JSON file, in the layout of YouTube-VIS.

    One annotation per identity, its `id` being the identity; `segmentations`, `bboxes` and
    `areas` have an entry per frame, null where it is not seen. `file_names` are those of the images
    the volume was made from, where it was; else they count its frames. `times` are in seconds.
    """
    volume = chosen.volume
    size = [volume.height, volume.width]
    length = len(chosen.frames)
    annotations: dict[int, dict[str, Any]] = {}
    for index, t in enumerate(chosen):
        rows = chosen.segments(t)
        texts = _run_lengths(chosen.labels(t), rows)
        boxes = rows["bbox"].tolist()
        for row, text, (x0, y0, x1, y1) in zip(rows, texts, boxes, strict=True):
            name = int(row["id"])
            if name not in annotations:
                annotations[name] = {
                    "id": name,
                    "video_id": 1,
                    "category_id": 1,
                    "iscrowd": 0,
                    "height": volume.height,
                    "width": volume.width,
                    "length": 1,
                    "segmentations": [None] * length,
                    "bboxes": [None] * length,
                    "areas": [None] * length,
                }
            track = annotations[name]
            track["segmentations"][index] = {"size": size, "counts": text}
            track["bboxes"][index] = [x0, y0, x1 - x0, y1 - y0]
            track["areas"][index] = int(row["area"])
        step()
    document = {
        "info": {"description": f"{volume.unit}s of {volume.source}"},
        "videos": [
            {
                "id": 1,
                "height": volume.height,
                "width": volume.width,
                "length": length,
                "file_names": [chosen.picture_name(t) for t in chosen],
                "times": [float(volume.times[t]) for t in chosen],
            }
        ],
        "categories": [{"id": 1, "name": volume.unit}],
        "annotations": [annotations[name] for name in sorted(annotations)],
    }
    path.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")


def _run_lengths(labels: NDArray[np.int32], rows: NDArray[Any]) -> list[str]:
    """Return the run lengths of each row's mask; label i is row i."""
    names = np.arange(len(rows), dtype=np.int32)
    boxes = np.ascontiguousarray(rows["bbox"])
    bounds = np.zeros(len(rows) + 1, np.int64)
    room = 1 << 16
    while True:
        out = np.empty(room, np.uint8)
        if rle.encode_masks(labels, names, boxes, out, bounds):
            break
        room *= 4
    text = out[: bounds[-1]].tobytes().decode("ascii")
    return [text[a:b] for a, b in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]


def palette() -> NDArray[np.uint8]:
    """Return the 256 colours (256, 3) that DAVIS and PASCAL VOC give to labels.

    Bits 0, 1 and 2 of a label go to the top of red, green and blue, the next three below them, and
    so on.
    """
    labels = np.arange(256)
    colours = np.zeros((256, 3), np.uint8)
    for bit in range(8):
        colours[:, bit % 3] |= ((labels >> bit & 1) << (7 - bit // 3)).astype(np.uint8)
    return colours


def indexed_png(labels: NDArray[np.uint8]) -> bytes:
    """Return labels (h, w) as a PNG file in the colours of DAVIS."""
    return _png(labels, 8, 3, palette().tobytes())


def _png(pixels: NDArray[Any], depth: int, kind: int, colours: bytes = b"") -> bytes:
    """Return a PNG file: kind 0 is grey, 3 indexed. OpenCV writes no indexed ones."""

    def chunk(name: bytes, data: bytes) -> bytes:
        body = name + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    h, w = pixels.shape
    plain = pixels.view(np.uint8).reshape(h, -1)
    above = np.zeros_like(plain)
    above[1:] = plain[:-1]
    lines = np.empty((h, plain.shape[1] + 1), np.uint8)
    lines[:, 0] = 2  # each line is written as its difference to the one above
    lines[:, 1:] = plain - above
    head = struct.pack(">IIBBBBB", w, h, depth, kind, 0, 0, 0)
    parts = [b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", head)]
    if colours:
        parts.append(chunk(b"PLTE", colours))
    parts += [chunk(b"IDAT", zlib.compress(lines.tobytes(), 4)), chunk(b"IEND", b"")]
    return b"".join(parts)
