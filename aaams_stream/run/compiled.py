"""The core as users call it: with its kernels compiled ahead (see `jit.compile_ahead`)."""

from __future__ import annotations

import functools
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aaams_stream.core import image, segmenter
from aaams_stream.core.stopwatch import stopwatch
from aaams_stream.core.tuning import DEFAULT, Tuning
from aaams_stream.jit import compile_ahead
from aaams_stream.run.progress import missed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from aaams_stream.core.prepare import Watch
    from aaams_stream.core.roi import Roi
    from aaams_stream.core.state import SegmenterState
    from aaams_stream.params import Params

_log = logging.getLogger(__name__)


class Segmenter(segmenter.Segmenter):  # noqa: D101  what it does is said there
    __doc__ = segmenter.Segmenter.__doc__

    def __init__(
        self,
        params: Params | str | Path | None = None,
        *,
        segments: int | None = None,
        state: SegmenterState | None = None,
        tuning: Tuning = DEFAULT,
        watch: Watch = stopwatch,
        roi: Roi | ArrayLike | None = None,
    ) -> None:
        super().__init__(
            params, segments=segments, state=state, tuning=tuning, watch=watch, roi=roi
        )
        compile_ahead()


@functools.wraps(image.segment_image, assigned=("__doc__",))
def segment_image(  # noqa: D103  said there, too
    rgb: Any,
    params: Params | str | Path | None = None,
    *,
    segments: int | None = None,
    tuning: Tuning = DEFAULT,
) -> image.ImageSegmentation:
    compile_ahead()
    result = image.segment_image(rgb, params, segments=segments, tuning=tuning)
    if segments is not None:
        for warning in missed_in_image(segments, result.count):
            _log.warning("%s", warning)
    return result


def missed_in_image(wanted: int | None, found: int) -> tuple[str, ...]:
    """Say in one line that an image was cut in far fewer segments than somebody asked for."""
    return missed(f"{wanted} segments", wanted or 0, found, "a smaller post.min_size")
