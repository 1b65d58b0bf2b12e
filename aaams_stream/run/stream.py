"""Segmented frames one by one: live from a source, or again from a volume."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Generator, Iterable
from contextlib import closing
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from aaams_stream.errors import SourceError
from aaams_stream.model import Clip, Frame, FrameSegmentation, Timecode, same_source
from aaams_stream.params import Params
from aaams_stream.paths import kind_of
from aaams_stream.run.progress import Tally, missed_count
from aaams_stream.run.region import read_roi
from aaams_stream.run.stages import describe_frames, label_frames, prepare_frames
from aaams_stream.run.threads import AHEAD, prefetch
from aaams_stream.source import open_source
from aaams_stream.source.given import open_frames

if TYPE_CHECKING:
    from aaams_stream.core.live_levels import LiveLevels
    from aaams_stream.source import Source
    from aaams_stream.source.given import GivenFrame
    from aaams_stream.store import Header, Volume

_log = logging.getLogger(__name__)
_ENOUGH = 50  # frames after which it is plain how many segments they have


# Mean distance in L*a*b* between a volume's segments and the pictures drawn under it, beyond which
# these are of another film: another encoding of the same one has about 1, other films 24 and more.
_MOST_APART = 10.0
_LOOK_EACH = 16  # frames; the first is looked at, too


def stream(
    source: str | Path | Iterable[GivenFrame],
    params: Params | str | Path | None = None,
    *,
    segments: int | None = None,
    start: float | Fraction | Timecode | None = None,
    duration: float | Fraction | Timecode | None = None,
    every: int = 1,
    size: tuple[int, int] | None = None,
    roi: str | Path | ArrayLike | None = None,
) -> Generator[FrameSegmentation]:
    """Segment a source live: yield each frame as it is done, with its picture.

    Takes what `segment_video` takes, and stores nothing; or any iterable of frames, such as a
    generator that reads a camera: arrays (h, w) or (h, w, 3) uint8 in RGB order, each by itself, 25
    a second, or in a pair with its time in seconds. No frame depends on one that follows.
    Decoding and the stages of the segmenter run on threads of their own, a few frames ahead of
    what was yielded; they end with the generator. A frame can be asked for its `groups` until the
    next one is.

    Args:
        source: a file, a folder or pattern of images, `camera:N`, an address, `-` or `demo`.
        params: settings, a path to a TOML file or the name of a set; None for the defaults.
        segments: the wanted number per frame, instead of the settings'.
        start: seconds from the first frame at which to begin.
        duration: seconds of the source to segment.
        every: keep each n-th frame.
        size: width and height to scale the frames to.
        roi: the region of interest, an image file or an array (h, w) of the frames' size, above 0
            where it is: the rest of each frame has id 0.

    Yields:
        Each frame with ids, tables, events and its picture.

    Raises:
        ConfigError: settings or arguments are wrong.
        SourceError: the source cannot be opened.

    Example:
        >>> import aaams_stream as aaams
        >>> for frame in aaams.stream("demo", duration=0.1, size=(160, 120)):
        ...     print(frame.index, frame.ids.shape, frame.rgb.shape)
        0 (120, 160) (120, 160, 3)
        1 (120, 160) (120, 160, 3)
        2 (120, 160) (120, 160, 3)
    """
    from aaams_stream.core.live_levels import LiveLevels
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.core.threads import thread_count
    from aaams_stream.jit import compile_ahead

    several = thread_count() > 1
    segmenter = Segmenter(params, segments=segments, roi=read_roi(roi))
    compile_ahead()
    left = threading.Event()
    with _opened(source, Clip(start, duration, every, size)) as frames:
        if segmenter.roi is not None:
            segmenter.roi.require_size((frames.height, frames.width))
        beside = several or frames.live or frames.remote  # see `run_job`
        depth, ahead = (1, AHEAD) if beside else (0, 0)

        def stop() -> None:
            left.set()
            frames.stop()

        prepared = prefetch(
            prepare_frames(frames, segmenter.params, segmenter.roi),
            ahead,
            should_stop=left.is_set,
            deaf=frames.remote,
        )
        labelled = prefetch(
            label_frames(prepared, segmenter), depth, should_stop=left.is_set, first=True
        )
        with closing(prefetch(describe_frames(labelled), depth, stop=stop)) as results:
            levels, tally = None, Tally(0, None)
            for frame, result in results:
                tally.add(len(result.segments), 0.0)
                if tally.frames == _ENOUGH:
                    _log_missed(segmenter.params, tally)
                levels = levels or LiveLevels(frame.rgb.shape[:2], segmenter.params)
                levels.update(result)
                grouping = partial(_groups_of, levels, result.index)
                yield dataclasses.replace(result, rgb=frame.rgb, grouping=grouping)
            if tally.frames < _ENOUGH:
                _log_missed(segmenter.params, tally)


def _log_missed(params: Params, tally: Tally) -> None:
    for warning in missed_count(params, tally.segments):
        _log.warning("%s", warning)


def _opened(source: str | Path | Iterable[GivenFrame], clip: Clip) -> Source:
    """Open an input by its name, or frames that are at hand."""
    if isinstance(source, str | Path):
        return open_source(source, clip)
    return open_frames(source, clip)


def _groups_of(levels: LiveLevels, index: int, segments: int) -> NDArray[np.uint32]:
    """Return the group of each id of a frame, which must be the newest."""
    if levels.newest != index:
        raise ValueError(
            f"groups can be asked of the newest frame, which is {levels.newest}, not {index}: ask "
            "before the next frame, or ask a volume"
        )
    ids, names = levels.groups(segments)
    lookup = np.zeros(int(ids.max(initial=0)) + 1, np.uint32)
    lookup[ids] = names
    return lookup


def replay(volume: Volume, source: str | Path | None = None) -> Generator[FrameSegmentation]:
    """Yield the frames of a volume as `stream` would have, with their pictures.

    Args:
        volume: from `open_volume`, or a view of one.
        source: where the pictures come from; None: from the volume if they are stored there, else
            from where the volume was made.

    Yields:
        Each frame with ids, tables, events and its picture.

    Raises:
        SourceError: the pictures cannot be found, are others than they were or too few.

    Example:
        >>> import aaams_stream as aaams
        >>> summary = aaams.segment_video("demo", "again.zarr", duration=0.1, size=(160, 120))
        >>> [frame.index for frame in aaams.replay(aaams.open_volume("again.zarr"))]
        [0, 1, 2]
    """
    if not hasattr(volume, "frame_count"):
        raise ValueError(f"expected a volume, as open_volume gives it, got {kind_of(volume)}")
    times = volume.times
    with closing(pictures_of(volume, source)) as pictures:
        for t, picture in enumerate(pictures):
            yield frame_at(volume, t, float(times[t]), picture.rgb)


def frame_at(volume: Volume, t: int, time: float, rgb: NDArray[np.uint8]) -> FrameSegmentation:
    """Return one frame of a volume as `stream` would have yielded it; `time` as in its `times`."""
    return FrameSegmentation(
        index=t,
        time=time,
        ids=volume.ids[t],
        segments=volume.segments(t),
        adjacency=volume.adjacency(t),
        events=volume.events_at(t),
        stats={},
        rgb=rgb,
        grouping=lambda segments: volume.groups(segments=segments),
    )


def pictures_of(volume: Volume, source: str | Path | None) -> Generator[Frame]:
    """Yield the picture of each frame of a volume; a SourceError where one cannot be had."""
    header, total, count = volume.header, volume.frame_count, 0
    if source is None and volume.video is not None:
        for index, seconds in enumerate(volume.times):
            when = round(Fraction(float(seconds)) / header.time_base) * header.time_base
            yield Frame(index, when, volume.video[index])
        return
    if source is None and header.fingerprint is None:
        raise SourceError(
            f"{volume.path}: was made from {header.spec} while it ran, which cannot be read again; "
            "name its pictures with --source, or segment with --with-video"
        )
    clip = Clip(**{**header.selection, "size": (volume.width, volume.height)})
    try:
        opened = open_source(header.spec if source is None else source, clip)
    except SourceError as error:
        if source is not None:
            raise
        raise SourceError(f"{error}; the volume was made from it: name it with --source") from error
    with opened as frames:
        if source is None and not same_source(header.fingerprint, frames.fingerprint):
            raise SourceError(
                f"{header.spec}: has changed since the volume was made; name the right file with "
                "--source"
            )
        known = source is None or same_source(header.fingerprint, frames.fingerprint)
        if not known and not _may_be(header, frames):
            raise SourceError(
                f"{source}: is not what the volume was made from ({header.spec}), by length and "
                "content; name that one"
            )
        with closing(prefetch(frames, AHEAD, stop=frames.stop, deaf=frames.remote)) as pictures:
            for picture in islice(pictures, total):
                if not known and count % _LOOK_EACH == 0:
                    apart = _colours_apart(volume, count, picture.rgb)
                    if apart > _MOST_APART:
                        raise SourceError(
                            f"{source}: is not what the volume was made from ({header.spec}), by "
                            f"the colours of frame {count}; name that one"
                        )
                yield picture
                count += 1
        if count < total:
            raise SourceError(
                f"{source or header.spec}: ended after {count} frames of {total}; name the "
                "pictures the volume was made from with --source"
            )


def _may_be(header: Header, frames: Source) -> bool:
    """Whether the pictures of a volume may come from a source that is not known to be its own.

    Nothing is known of what ran live, and of addresses not what they hold: colours must tell.
    """
    kept = header.fingerprint
    return kept is None or "://" in kept or frames.remote


def _colours_apart(volume: Volume, t: int, rgb: NDArray[np.uint8]) -> float:
    """Return how far a picture is from the colours of a frame's segments, as a mean over pixels."""
    from aaams_stream.core.features import lab_colours

    rows, ids = volume.segments(t), volume.ids[t]
    if not len(rows):
        return 0.0
    row = np.searchsorted(rows["id"], ids[ids > 0])
    sums = np.stack([np.bincount(row, plane, len(rows)) for plane in rgb[ids > 0].T], axis=1)
    gaps = np.linalg.norm(lab_colours(sums / rows["area"][:, None]) - rows["colour"], axis=1)
    return float(np.average(gaps, weights=rows["area"]))
