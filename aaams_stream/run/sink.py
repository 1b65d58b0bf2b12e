"""Where segmented frames go: a volume, and a film beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from aaams_stream.draw.video import VideoWriter
from aaams_stream.draw.views import draw_view
from aaams_stream.model import Frame, FrameSegmentation

if TYPE_CHECKING:
    from aaams_stream.core.state import SegmenterState
    from aaams_stream.store import Header, VolumeWriter


# Between commits. One takes 0.2 s of processor time at 640x480, because it writes the last, partial
# chunk of every column once more; a crash loses what came after it.
COMMIT_SECONDS = 10.0
MARKS = "source.marks"  # what a resumed run needs to seek, beside the segmenter's state


class VolumeSink:
    """Writes frames to a volume and, if there is one, draws them on a film.

    The film stays open: whoever opened it closes it. `marks` returns those of the source up to a
    frame, to be kept with the segmenter's state.
    """

    def __init__(
        self,
        writer: VolumeWriter,
        film: VideoWriter | None = None,
        marks: Callable[[int], NDArray[Any]] | None = None,
    ) -> None:
        self._writer = writer
        self._film = film
        self._marks = marks

    @property
    def frames(self) -> int:
        """How many the volume has, with those from before."""
        return self._writer.frames

    def append(
        self,
        frame: Frame,
        segmentation: FrameSegmentation,
        state: SegmenterState | None = None,
    ) -> None:
        """Write the next frame; commit all so far if the segmenter's `state` after it is given.

        A state may come only where a chunk of the volume ends.
        """
        self._writer.append(segmentation, float(frame.time), frame.rgb)
        if state is not None:
            arrays = state.to_arrays()
            if self._marks is not None:
                arrays[MARKS] = self._marks(self._writer.frames)
            self._writer.commit(arrays)
        if self._film is not None:
            self._film.add(draw_view(frame.rgb, segmentation.ids), frame.time)

    def commit(self) -> None:
        """Make all frames so far count, without a state to go on from; only where a chunk ends."""
        self._writer.commit({})

    def finish(self, ended: str) -> None:
        """Mark the volume complete; `ended` says how the source ended."""
        self._writer.finish(ended)


def open_film(path: Path, header: Header, overwrite: bool) -> VideoWriter:
    """Begin a film of a volume, with the size and the times of its frames."""
    size = (header.width, header.height)
    return VideoWriter(
        path, size, rate=header.rate, time_base=header.time_base, overwrite=overwrite
    )
