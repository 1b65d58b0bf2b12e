"""Messages of the stream as bytes, each part encoded once for everyone who looks on.

A message begins with the length of its head (uint32) and the head, a JSON object: the status and,
with a frame, its number and sizes. `packed` bytes follow, which zlib has deflated, and then the
picture as JPEG. Unpacked they are, all numbers little-endian; k segments, n merges:

    ids        uint32 (k,)      each less the one before
    merges     uint16 (n, 2)    segments that become one, in order: the first stands for both
    colours    uint8 (k, 3)     mean colour, RGB
    segments   the segment of each pixel, as a label map: `codes[0]` codes, `codes[1]` values; k
               where nothing is segmented
    objects    the number of the object that is followed there, or 0, in the same way: `codes[2:]`

A label map is told line by line, each as runs of a label from some pixel on. Codes, a byte each,
go through the runs of the line above in order:

    0 to 6     the next run above goes on, its first pixel moved by so many less 3
    7          it ends
    8          a new run: values say how far behind the run before it begins, and its label
    9          the next run above goes on, moved by a value: 2 m to the right, 2 m - 1 to the left
    10         the line is whole

Values are numbers of seven bits a byte, the lowest first, the highest bit set but in the last. No
label is lost; areas and centres follow from them. The picture is as good as a viewer's line takes.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from typing import TYPE_CHECKING, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import measure, wire
from aaams_stream.live.board import Status, lab_to_rgb

if TYPE_CHECKING:
    from aaams_stream.live import LiveFrame, LiveLoop

_FIELDS = tuple(field.name for field in dataclasses.fields(Status))
_BAND = 1 << 16  # pixels that OpenCV converts on one thread
_LEAST_QUALITY, _BEST_QUALITY = 35, 85  # of JPEG; below it a smaller picture looks better
_SMALLER = 0.75  # times its width and height
_ENOUGH = 75  # quality at which it may grow again
_LEAST_PICTURE = 6000  # bytes: less is no picture
_SAME = 0.02  # seconds in which the status counts as unchanged if nothing has happened
_PACKING = 1  # zlib's level: the next ones save three parts in a hundred and take twice as long


class Picture(NamedTuple):
    """How good a picture a viewer gets."""

    name: str
    room: float  # bytes a pixel of the frame, for picture and labels together
    scale: float  # of the picture's width and height; labels keep every pixel
    pause: float  # seconds at least from one frame to the next
    cost: float  # roughly, of the bytes of the one before


# 768x576 at 25 frames a second: 12, 7 and, at half the rate, 4 Mbit/s.
PICTURES = (
    Picture("full", 0.128, 1.0, 0.0, 1.0),
    Picture("less", 0.078, 0.75, 0.0, 0.6),
    Picture("low", 0.082, 0.5, 0.075, 0.6),
)


class Encoded(NamedTuple):
    """A frame as it is sent."""

    number: int
    sizes: str  # the numbers a reader needs to take the bytes apart, in JSON
    body: bytes


class Message(NamedTuple):
    """A message but for what is told to one viewer alone."""

    heads: tuple[str, ...]  # JSON objects, which `framed` makes one
    body: bytes  # a frame, or nothing


class Messages:
    """The messages about a loop; `title` is what viewers may know of its source."""

    def __init__(self, loop: LiveLoop, title: str) -> None:
        self.encoder = Encoder()
        self._loop, self._title = loop, title
        self._told: tuple[int, float, str] = (-1, 0.0, "")

    def message(self, shown: LiveFrame | None, picture: Picture = PICTURES[0]) -> Message:
        """Return the state of things, and a frame if there is a new one."""
        return self.past_message(None if shown is None else self.encoder.encode(shown, picture))

    def past_message(self, kept: Encoded | None) -> Message:
        """Return the state of things with a frame that is encoded already."""
        if kept is None:
            return Message((self._head(),), b"")
        return Message((self._head(), kept.sizes), kept.body)

    def _head(self) -> str:
        """Return the status, which several viewers of a frame are told in the same words."""
        version, now = self._loop.version, self._loop.clock.now()
        if self._told[0] != version or not 0 <= now - self._told[1] < _SAME:
            status = self._loop.status
            head = {name: getattr(status, name) for name in _FIELDS}
            self._told = version, now, json.dumps({**head, "source": self._title, "now": now})
        return self._told[2]


def framed(*heads: str) -> bytes:
    """Return JSON objects, none of them empty, as the bytes of one, with their number before."""
    text = f"{{{', '.join(head[1:-1] for head in heads)}}}".encode()
    return len(text).to_bytes(4, "little") + text


class Encoder:
    """Encodes the labels of a frame once, and its picture once for each quality asked for."""

    def __init__(self) -> None:
        self._made_for: tuple[int, int] | None = None  # number and revision of a frame
        self._sizes = ""
        self._packed = b""
        self._pictures: dict[str, bytes] = {}
        self._made: dict[str, Encoded] = {}
        # of JPEG, and how much smaller it is still: found for each kind of picture
        self._found: dict[str, tuple[int, float]] = {}

    def encode(self, shown: LiveFrame, picture: Picture) -> Encoded:
        """Return the frame as it is sent."""
        asked = (shown.number, shown.revision)
        if self._made_for != asked:
            sizes, self._packed = pack_labels(shown)
            self._sizes = json.dumps(sizes)
            if self._made_for is None or self._made_for[0] != shown.number:
                self._pictures = {}
            self._made, self._made_for = {}, asked
        if picture.name not in self._made:
            if picture.name not in self._pictures:
                self._pictures[picture.name] = self._encode_picture(shown, picture)
            body = self._packed + self._pictures[picture.name]
            self._made[picture.name] = Encoded(shown.number, self._sizes, body)
        return self._made[picture.name]

    def _encode_picture(self, shown: LiveFrame, picture: Picture) -> bytes:
        """Return the picture as JPEG, as good as there is room for; the next one learns from it."""
        plain = _bgr(shown.frame.rgb)
        room = max(picture.room * plain[..., 0].size - len(self._packed), _LEAST_PICTURE)
        quality, shrunk = self._found.get(picture.name, (75, 1.0))
        for _ in range(4):
            bgr = _scaled(plain, picture.scale * shrunk)
            jpeg = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
            if len(jpeg) <= room:
                break
            if quality > _LEAST_QUALITY:
                quality = max(_LEAST_QUALITY, round(quality * (0.97 * room / len(jpeg)) ** 0.9))
            elif shrunk > _SMALLER**3:
                quality, shrunk = 45, shrunk * _SMALLER
        fits = len(jpeg) < 0.93 * room
        if fits and quality >= _ENOUGH and shrunk < 1:
            quality, shrunk = 50, shrunk / _SMALLER
        elif fits:
            quality = min(_BEST_QUALITY, quality + 1)
        self._found[picture.name] = (quality, shrunk)
        return jpeg


def pack_labels(shown: LiveFrame) -> tuple[dict[str, object], bytes]:
    """Return the sizes of a frame's parts, and all but its picture."""
    found, scene = shown.segmentation, shown.scene
    ids, segments = found.ids, found.segments
    h, w = ids.shape
    names = np.ascontiguousarray(segments["id"])
    parts = [
        np.diff(names, prepend=np.uint32(0)).astype("<u4").tobytes(),
        shown.merges.astype("<u2").tobytes(),
        lab_to_rgb(segments["colour"]).tobytes(),
        *code_labels(ids, names),
    ]
    codes = [len(part) for part in parts[3:]]
    if scene is not None and scene.sightings:
        numbers = np.array([0, *(one.number for one in scene.sightings)], np.uint32)
        objects = code_labels(scene.labels.astype(np.uint32), np.sort(numbers))
        parts += objects
        codes += map(len, objects)
    packed = zlib.compress(b"".join(parts), _PACKING)
    followed = [] if scene is None else [(one.number, one.state) for one in scene.sightings]
    sizes: dict[str, object] = {
        "followed": followed,
        "number": shown.number,
        "time": found.time,
        "captured": shown.captured,
        "width": w,
        "height": h,
        "rows": len(segments),
        "merges": len(shown.merges),
        "codes": codes,
        "packed": len(packed),
    }
    return sizes, packed


def code_labels(ids: NDArray[np.uint32], names: NDArray[np.uint32]) -> tuple[bytes, bytes]:
    """Return the codes and values of a label map; labels are places in `names`, ascending.

    The label of what is 0 and not among them is their number.
    """
    h, w = ids.shape
    rows, lengths = np.empty(h * w, np.uint32), np.empty(h * w, np.uint16)
    if ids.all() or not names.all():
        runs = measure.find_runs(ids, names, rows, lengths)
    else:
        runs = measure.find_runs(ids, np.append(np.uint32(0), names), rows, lengths)
        rows[:runs] = np.where(rows[:runs] > 0, rows[:runs] - np.uint32(1), np.uint32(len(names)))
    codes, values = np.empty(2 * runs + h, np.uint8), np.empty(8 * runs, np.uint8)
    n, v = wire.code_runs(rows, lengths, runs, w, codes, values)
    return codes[:n].tobytes(), values[:v].tobytes()


def _scaled(bgr: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
    if factor == 1:
        return bgr
    h, w = (max(1, round(factor * side)) for side in bgr.shape[:2])
    return np.asarray(cv2.resize(bgr, (w, h), interpolation=cv2.INTER_AREA), np.uint8)


def _bgr(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the picture in OpenCV's order."""
    bgr = np.empty_like(rgb)
    # in bands, for the whole of which OpenCV would wake a pool of threads
    lines = max(_BAND // rgb.shape[1], 1)
    for y in range(0, len(rgb), lines):
        cv2.cvtColor(rgb[y : y + lines], cv2.COLOR_RGB2BGR, dst=bgr[y : y + lines])
    return bgr
