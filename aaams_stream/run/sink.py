"""Where segmented frames go: a volume, and a film beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aaams_stream.core.state import SegmenterState
    from aaams_stream.draw.video import Film
    from aaams_stream.model import Frame, FrameSegmentation
    from aaams_stream.store import VolumeWriter


class VolumeSink:
    """Appends frames to a volume and, if there is one, to a film of their boundaries."""

    def __init__(self, writer: VolumeWriter, film: Film | None = None) -> None:
        self._writer = writer
        self._film = film

    @property
    def frames(self) -> int:
        """How many frames the volume holds."""
        return self._writer.frames

    def append(
        self, frame: Frame, segmentation: FrameSegmentation, state: SegmenterState | None = None
    ) -> None:
        """Add the next frame; commit, if the segmenter's state after it is given."""
        self._writer.append(segmentation, float(frame.time), frame.rgb)
        if state is not None:
            self._writer.commit(state.to_arrays())
        if self._film is not None:
            from aaams_stream.draw.video import paint

            self._film.add(paint(frame.rgb, segmentation.ids), frame.time)

    def finish(self, ended: str) -> None:
        """Mark the volume complete; `ended` says how the source ended."""
        self._writer.finish(ended)
