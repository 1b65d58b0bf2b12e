"""Objects followed through a video or a volume, and what comes of it as files."""

from __future__ import annotations

import csv
import dataclasses
import re
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np
from numpy.typing import NDArray

from aaams_stream.draw.objects import draw_objects
from aaams_stream.draw.video import VideoWriter
from aaams_stream.errors import ConfigError, SourceError
from aaams_stream.export.masks import indexed_png, palette
from aaams_stream.files import Draft, check_target
from aaams_stream.model import FrameSegmentation
from aaams_stream.objects.follower import Follower, Scene
from aaams_stream.objects.tracker import mask_at
from aaams_stream.params import Params
from aaams_stream.paths import expanded
from aaams_stream.run.interrupt import Stopped, noting_stop
from aaams_stream.run.stream import frame_at, pictures_of, replay, stream
from aaams_stream.source.images import read_image

if TYPE_CHECKING:
    from aaams_stream.store import Volume

COLUMNS = ("frame", "time", "object", "area", "x0", "y0", "x1", "y1", "sure", "state")
_TICK = Fraction(1, 90000)  # of the film's clock, in seconds
_MOST_VALUES = 20  # grey levels, or colours of the palette, up to which each is an object

_OURS = re.compile(r"masks|overlay\.mp4|objects\.csv")  # in a folder that may be replaced

Click = tuple[int, int, int]  # object, x, y
Frames = Iterator[FrameSegmentation]


@dataclass(frozen=True, slots=True)
class Start:
    """What to follow, and from where on."""

    frame: int = 0
    mask: Path | None = None  # a picture of the frames' size
    clicks: tuple[Click, ...] = ()  # what belongs to an object
    without: tuple[Click, ...] = ()  # what does not
    groups: int | None = None  # clicks take groups of segments, about so many a frame

    def masks(self, frame: FrameSegmentation) -> dict[int, NDArray[np.bool_]]:
        """Return the mask (h, w) of each object in the first frame."""
        found = read_masks(self.mask, frame.ids.shape) if self.mask else {}
        if self.groups is not None:
            lookup = frame.groups(segments=self.groups)
            frame = dataclasses.replace(frame, ids=lookup[frame.ids])
        places: dict[int, tuple[list[tuple[int, int]], list[tuple[int, int]]]] = {}
        for kind, clicks in enumerate((self.clicks, self.without)):
            for number, x, y in clicks:
                places.setdefault(number, ([], []))[kind].append((x, y))
        for number, (inside, outside) in sorted(places.items()):
            mask = found.get(number, np.zeros(frame.ids.shape, np.bool_))
            mask = mask | mask_at(frame, inside)
            mask &= ~mask_at(frame, outside)
            if not mask.any():
                raise ConfigError(
                    f"object {number} is empty: what --not takes away is all that was clicked; "
                    "click on other segments, or see them at a finer level"
                )
            found[number] = mask
        return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it."""

    output: Path
    frames: int
    seen: Mapping[int, int]  # frames in which each object is seen
    stopped: int = 0  # by which signal


def follow_objects(
    frames: Frames, start: Start, progress: Callable[[int], None] | None = None
) -> Iterator[tuple[FrameSegmentation, Scene]]:
    """Yield each frame with its objects, from the frame in which they are shown on."""
    follower = Follower()
    first = True
    for frame in frames:
        scene = follower.step(frame)
        if first:
            for number, mask in start.masks(frame).items():
                follower.begin(mask, number)
            scene, first = follower.scene, False
        yield frame, scene
        if progress is not None:
            progress(frame.index)


def check_output(output: str | Path, overwrite: bool, **inputs: Path | None) -> Path:
    """Return the path of the folder; a SinkError where it cannot be put, or an input lies in it."""
    apart = {f"the {name}": path and expanded(path) for name, path in inputs.items()}
    return check_target(output, None, overwrite=overwrite, apart=apart, ours=_OURS)


def follow_video(
    frames: Frames,
    output: str | Path,
    start: Start,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Report:
    """Follow objects and write them to a folder.

    frames: from the one on in which the objects are shown, see `frames_of`. Writes
    masks/00000.png and so on, indexed PNG in the colours of DAVIS, overlay.mp4 and objects.csv. The
    folder appears when all is written; after Ctrl-C or the like it holds what was done until then.
    """
    path = check_output(output, overwrite, mask=start.mask)
    seen: dict[int, int] = {}
    count = 0
    with noting_stop() as stop, Draft(path) as folder, ExitStack() as stack:
        film: VideoWriter | None = None
        table: TextIO | None = None
        for frame, scene in follow_objects(stop.ending(frames), start, progress):
            if film is None or table is None:
                (folder / "masks").mkdir(parents=True)
                table = stack.enter_context((folder / "objects.csv").open("w", newline=""))
                csv.writer(table).writerow(COLUMNS)
                height, width = scene.labels.shape
                film = stack.enter_context(_film(folder / "overlay.mp4", (width, height)))
                begun = frame.time or 0.0
            (folder / "masks" / f"{frame.index:05d}.png").write_bytes(indexed_png(scene.labels))
            csv.writer(table).writerows(_rows(scene))
            since = abs((frame.time if frame.time is not None else count / 25) - begun)
            assert frame.rgb is not None
            film.add(draw_objects(frame.rgb, scene.labels, palette()), Fraction(since))
            for one in scene.sightings:
                seen[one.number] = seen.get(one.number, 0) + (one.state != "lost")
            count += 1
        if stop.asked and not count:
            raise Stopped(stop.number)
        if not count:
            raise SourceError("there is no frame to follow anything in")
    return Report(path, count, seen, stop.number)


def frames_of_volume(
    volume: Volume, first: int, *, backwards: bool = False, source: str | Path | None = None
) -> Generator[FrameSegmentation]:
    """Yield the frames of a volume with their pictures, from one on to the end, or to the start."""
    if not 0 <= first < volume.frame_count:
        raise ConfigError(
            f"--frame {first} is out of range: {volume.path} has frames 0 to "
            f"{volume.frame_count - 1}"
        )
    if not backwards:
        with closing(replay(volume, source)) as frames:
            yield from islice(frames, first, None)
        return
    times = volume.times
    if source is None and volume.video is not None:
        stored = volume.video
        for t in range(first, -1, -1):
            rgb = np.ascontiguousarray(stored[t])
            yield frame_at(volume, t, float(times[t]), rgb)
        return
    # a film is decoded forwards: its pictures wait on the disk, not in memory
    with tempfile.TemporaryFile() as waiting:
        shape = (volume.height, volume.width, 3)
        with closing(pictures_of(volume, source)) as pictures:
            for picture in islice(pictures, first + 1):
                waiting.write(picture.rgb.tobytes())
        for t in range(first, -1, -1):
            waiting.seek(t * shape[0] * shape[1] * 3)
            raw = waiting.read(shape[0] * shape[1] * 3)
            rgb = np.frombuffer(raw, np.uint8).reshape(shape)
            yield frame_at(volume, t, float(times[t]), rgb)


def frames_of_source(
    source: str | Path, first: int, params: Params | None = None
) -> Generator[FrameSegmentation]:
    """Yield the frames of a source, segmented now, from one on."""
    if first < 0:
        raise ConfigError(f"--frame {first} is out of range; frames count from 0")
    with closing(stream(source, params)) as frames:
        found = False
        for frame in islice(frames, first, None):
            found = True
            yield frame
    if not found:
        raise ConfigError(f"--frame {first} is out of range: {source} ended before it")


def read_masks(path: Path, shape: tuple[int, ...]) -> dict[int, NDArray[np.bool_]]:
    """Read a picture of objects: number to mask (h, w).

    Grey levels up to 20, or the first colours of the palette of DAVIS, are an object each;
    otherwise all above 0 is object 1.
    """
    picture = read_image(path)
    if picture.shape[:2] != shape:
        size = "x".join(map(str, picture.shape[1::-1]))
        wanted = "x".join(map(str, shape[::-1]))
        raise ConfigError(f"{path}: the mask is {size}, expected {wanted} as the frames are")
    labels: NDArray[np.int64]
    if picture.ndim == 3:
        values = picture[..., :3].astype(np.int64) @ (65536, 256, 1)
        colours = palette()[: _MOST_VALUES + 1].astype(np.int64) @ (65536, 256, 1)
        order = np.argsort(colours)
        at = np.minimum(np.searchsorted(colours[order], values), len(colours) - 1)
        labels = order[at]
        if (colours[labels] != values).any():
            labels = (values > 0).astype(np.int64)
    else:
        labels = picture.astype(np.int64)
        if labels.max(initial=0) > _MOST_VALUES:
            labels = (labels > 0).astype(np.int64)
    numbers = np.unique(labels)
    if not numbers.any():
        raise ConfigError(f"{path}: the mask is empty; mark the object with values above 0")
    return {int(n): np.asarray(labels == n) for n in numbers if n > 0}


def _film(path: Path, size: tuple[int, int]) -> VideoWriter:
    return VideoWriter(path, size, rate=Fraction(25), time_base=_TICK)


def _rows(scene: Scene) -> Iterator[tuple[object, ...]]:
    """Yield the lines of the table for one frame; no box where the object is lost."""
    time = "" if scene.time is None else f"{scene.time:.6f}"
    for one in scene.sightings:
        box = one.box if one.box is not None else ("", "", "", "")
        yield (scene.index, time, one.number, one.area, *box, f"{one.sure:.3f}", one.state)
