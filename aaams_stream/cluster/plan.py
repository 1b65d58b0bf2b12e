"""Where a film can be taken apart: found by one survey, kept beside the parts."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import ConfigError
from aaams_stream.files import write_files
from aaams_stream.run.segment_video import Job
from aaams_stream.source import open_source

SPACING = 200  # frames between two beginnings at least: beginning one costs about ten
# A cut is proposed where so large a share of a thumbnail has other colours than before, and so many
# times what it was in the last frames. At the cuts between DAVIS sequences it is .45 and more,
# within them .18 and less. A cut that is missed makes a part longer; one that is wrong costs the
# time that somebody spends on it; the bytes are the same.
_SHARE, _TIMES, _FRAMES = 0.3, 2.0, 4
_BITS = 3  # of a colour channel that count
_SAVE_SECONDS, _FIRST_FEW = 1.0, 8
_SURVEY, _STOP = "survey.npz", "stop"
_OURS = re.compile(r"[0-9]{8}\.(zarr|stop)")


def local_store(job: Job) -> Path:
    """Return the folder of the volume; parts lie beside it, and files are linked and renamed."""
    if isinstance(job.store, Path):
        return job.store
    raise ConfigError(
        f"{job.store}: a film in parts is put together in a folder; write to one, then use "
        "aaams-stream pack FOLDER ADDRESS"
    )


@dataclass(frozen=True, slots=True)
class Request:
    """A film that is to be segmented in parts, as every process is told of it."""

    job: Job
    header: str  # what the volume is about, as JSON: parts of another are not gone on with
    spacing: int = SPACING
    length: int = 0  # frames of a stretch; 0: parts end with scenes
    lead: int = 0  # frames by which a stretch begins earlier than it counts

    @property
    def folder(self) -> Path:
        """Where the parts lie."""
        store = local_store(self.job)
        return store.with_name(f"{store.name}.parts")

    def part(self, begin: int) -> Path:
        """Return the volume of the part that begins with a frame."""
        return self.folder / f"{begin:08d}.zarr"

    def stop_sign(self, begin: int | None = None) -> Path:
        """Return the file that, where it is there, stops one part, or all."""
        return self.folder / (_STOP if begin is None else f"{begin:08d}.stop")


class Start(NamedTuple):
    """A frame with which a part may begin."""

    frame: int
    marks: NDArray[Any]  # by which a seek leads there


@dataclass(frozen=True, slots=True)
class Survey:
    """What is known of a film so far."""

    header: str
    starts: tuple[Start, ...] = ()
    frames: int = 0  # seen so far
    complete: bool = False
    ended: str = ""  # how the source ended
    warnings: tuple[str, ...] = ()

    def save(self, folder: Path) -> None:
        """Keep it, whole, in place of what was known before."""
        words = {
            "header": self.header,
            "frames": self.frames,
            "complete": self.complete,
            "ended": self.ended,
            "warnings": self.warnings,
        }
        marks = [start.marks for start in self.starts]
        packed = io.BytesIO()
        np.savez(
            packed,
            words=np.frombuffer(json.dumps(words).encode(), np.uint8),
            starts=np.array([start.frame for start in self.starts], np.int64),
            counts=np.array([len(rows) for rows in marks], np.int64),
            marks=np.concatenate(marks) if marks else np.zeros(0),
        )
        write_files({folder / _SURVEY: packed.getvalue()})

    @classmethod
    def load(cls, folder: Path) -> Survey | None:
        """Return what was kept; None if there is nothing, or nothing that can be read."""
        try:
            with np.load(folder / _SURVEY, allow_pickle=False) as arrays:
                words = json.loads(arrays["words"].tobytes())
                bounds = np.cumsum(arrays["counts"])[:-1]
                marks = np.split(arrays["marks"], bounds)
                starts = tuple(map(Start, arrays["starts"].tolist(), marks))
        except (OSError, ValueError, KeyError, EOFError):
            return None
        return cls(**{**words, "warnings": tuple(words["warnings"])}, starts=starts)


def survey_film(request: Request) -> Survey:
    """Read a film once, and keep where it can be taken apart; what is kept grows on the way."""
    known = Survey.load(request.folder)
    if known is not None and known.complete and known.header == request.header:
        return known
    survey = Survey(request.header)
    request.folder.mkdir(parents=True, exist_ok=True)
    saved = time.monotonic()
    with open_source(request.job.source, request.job.clip) as source:
        starts: list[Start] = []
        wanted = _every(request) if request.length else _cuts(request.spacing)
        frames = 0
        for glance in source.glances():
            frames = glance.number + 1
            if wanted(glance.number, glance.thumbnail):
                starts.append(Start(glance.number, glance.marks()))
                # the first few at once: others wait for them
                if len(starts) <= _FIRST_FEW or time.monotonic() - saved > _SAVE_SECONDS:
                    Survey(request.header, tuple(starts), frames).save(request.folder)
                    saved = time.monotonic()
        survey = Survey(
            request.header, tuple(starts), frames, True, source.ended, tuple(source.warnings)
        )
    survey.save(request.folder)
    return survey


Wanted = Callable[[int, NDArray[np.uint8]], bool]


def _every(request: Request) -> Wanted:
    """Return whether a stretch begins with a frame; the first one has no lead."""

    def wanted(index: int, thumbnail: NDArray[np.uint8]) -> bool:
        counted = index + request.lead
        return index == 0 or (counted % request.length == 0 and counted > request.length - 1)

    return wanted


def _cuts(spacing: int) -> Wanted:
    """Return whether a scene seems to begin with a frame, far enough from the one before."""
    before: NDArray[np.int64] | None = None
    latest = [0.0] * _FRAMES
    last = 0

    def wanted(index: int, thumbnail: NDArray[np.uint8]) -> bool:
        nonlocal before, last
        now = _colours(thumbnail)
        if before is None:
            before = now
            return True
        share = float(np.abs(now - before).sum() / (2 * now.sum()))
        usual = max(latest)
        before = now
        latest[index % _FRAMES] = share
        if index - last < spacing or share < max(_SHARE, _TIMES * usual):
            return False
        last = index
        return True

    return wanted


def _colours(thumbnail: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return how often each colour occurs, of which there are few."""
    steps = (thumbnail >> (8 - _BITS)).astype(np.int64)
    names = (steps[..., 0] << 2 * _BITS) + (steps[..., 1] << _BITS) + steps[..., 2]
    return np.bincount(names.ravel(), minlength=1 << 3 * _BITS)


def clear_stop_signs(request: Request) -> None:
    """Take down what stopped an earlier run."""
    for sign in request.folder.glob("*stop"):
        if sign.name == _STOP or _OURS.fullmatch(sign.name):
            sign.unlink(missing_ok=True)


def our_files(folder: Path) -> Iterator[Path]:
    """Yield what lies in a folder of parts and is ours."""
    for path in folder.iterdir():
        if path.name in (_SURVEY, _STOP) or _OURS.fullmatch(path.name):
            yield path


def planned_end(starts: Sequence[Start], number: int, survey: Survey) -> int:
    """Return with which frame the part of a start will end, if its cut is one."""
    return starts[number + 1].frame if number + 1 < len(starts) else survey.frames
