"""The stages of a stream, beside each other.

What a frame shows by itself is found ahead (`core/prepare.py`), labels follow one frame after the
other (`Segmenter.label`), and what only reads them comes behind (`core/describe.py`). Each is a
generator that closes the one it takes from; `prefetch` between two of them puts them on threads of
their own. All compiled loops let go of the interpreter, so they do run side by side. On one thread
the stages take turns, and the result is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from aaams_stream.core.describe import Labelled
    from aaams_stream.core.prepare import Prepared
    from aaams_stream.core.roi import Roi
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.model import Frame, FrameSegmentation
    from aaams_stream.params import Params

Item = TypeVar("Item")


def prepare_frames(
    frames: Iterable[Frame], params: Params, roi: Roi | None = None
) -> Generator[tuple[Frame, Prepared]]:
    """Yield each frame with what it shows by itself, and its flow since the one before."""
    from aaams_stream.core.prepare import Preparer

    preparer = Preparer(params, roi=roi)
    for frame in frames:
        yield frame, preparer.prepare(frame.rgb, float(frame.time))


def label_frames(
    frames: Generator[tuple[Item, Prepared]], segmenter: Segmenter
) -> Generator[tuple[Item, Labelled]]:
    """Yield each prepared frame with its labels; what it came with goes along."""
    with closing(frames):
        for item, prepared in frames:
            yield item, segmenter.label(prepared)


def describe_frames(
    frames: Generator[tuple[Item, Labelled]],
) -> Generator[tuple[Item, FrameSegmentation]]:
    """Yield each labelled frame as users get it; what it came with goes along."""
    from aaams_stream.core.describe import describe

    with closing(frames):
        for item, labelled in frames:
            yield item, describe(labelled)
