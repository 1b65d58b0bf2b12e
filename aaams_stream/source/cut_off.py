"""Files that are shorter than they say of themselves: FFmpeg takes their end for that of the film.

A download that broke off, or a disk that was full, leaves such files. What the container says of
its length stands in its first bytes; formats that say nothing are not judged.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

_SLACK = 16  # bytes by which careless programs are wrong
_MOST_BOXES = 10_000  # of an MP4: one made of fragments has two for each
_EBML, _SEGMENT = b"\x1a\x45\xdf\xa3", b"\x18\x53\x80\x67"


def cut_off(path: str | Path) -> str | None:
    """Say how much of a file is missing, by what it says of itself; None: nothing that is known."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(12)
        announced = 0
        if start.startswith(_EBML):
            announced = _matroska(file, size)
        elif start.startswith(b"RIFF"):
            announced = _riff(file, size)
        elif start[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
            announced = _mp4(file, size)
        elif start.startswith(b"GIF8") and not _ends_as_gif(file, size):
            return "the file breaks off"
    if announced <= size + _SLACK:
        return None
    return f"the file breaks off: {size} of {announced} bytes are there"


def _matroska(file: BinaryIO, size: int) -> int:
    """Return where the segment ends, which holds everything; 0 where that is left open."""
    at = 0
    for wanted in (_EBML, _SEGMENT):
        if at > size:
            return 0
        file.seek(at)
        head = file.read(12)
        width = 9 - head[4].bit_length() if len(head) == 12 and head[4] else 0
        if not head.startswith(wanted) or not width:
            return 0
        length = int.from_bytes(head[4 : 4 + width]) & ((1 << 7 * width) - 1)
        if length == (1 << 7 * width) - 1:  # unknown
            return 0
        at += 4 + width + length
    return at


def _riff(file: BinaryIO, size: int) -> int:
    """Return where the last of the parts ends: a large AVI has several."""
    at = 0
    while at + 8 <= size:
        file.seek(at)
        head = file.read(8)
        length = int.from_bytes(head[4:], "little")
        if head[:4] != b"RIFF" or length in (0, 0xFFFFFFFF):  # written while nobody knew
            return at
        at += 8 + length + length % 2
    return at


def _mp4(file: BinaryIO, size: int) -> int:
    """Return where the last of the boxes ends; one that is as long as the file ends with it."""
    at = 0
    for _ in range(_MOST_BOXES):
        if at + 8 > size:
            break
        file.seek(at)
        head = file.read(16)
        length = int.from_bytes(head[:4])
        if length == 1 and len(head) == 16:
            length = int.from_bytes(head[8:])
        if length < 8 or not head[4:8].isalnum():  # to the end of the file, or no box
            return 0
        at += length
    return at


def _ends_as_gif(file: BinaryIO, size: int) -> bool:
    file.seek(max(0, size - 1024))
    return file.read().rstrip(b"\0").endswith(b";")
