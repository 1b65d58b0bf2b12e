"""What to run once so that kernels are compiled, or loaded, before they are needed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from aaams_stream.jit import Call
    from aaams_stream.model import FrameSegmentation


def warm_image() -> None:
    """Run images, points and metrics once on next to nothing."""
    import numpy as np

    from aaams_stream import metrics
    from aaams_stream.points import AAAMS
    from aaams_stream.run.compiled import segment_image
    from aaams_stream.source.demo import demo_frame

    labels = segment_image(demo_frame(0).rgb[::8, ::8].copy()).labels
    metrics.score_image(labels, labels)
    points = np.random.default_rng(0).normal(size=(1000, 2))
    for few_or_many in (points[:60], points):  # few points take a way of their own
        AAAMS(0.4, 0.5, min_size=3, bhattacharyya=1.0, n_clusters=2).fit(few_or_many)


def warm_stream(should_stop: Callable[[], bool] = lambda: False) -> None:
    """Run what a stream and the readers of a volume need; should_stop: asked before every frame."""
    from aaams_stream.params import Params
    from aaams_stream.run.compiled import Segmenter
    from aaams_stream.source.demo import demo_frame

    segmenter = Segmenter(Params().updated({"stream": {"scale": 0.8}}))
    for index in range(3):
        if should_stop():
            return
        rgb = demo_frame(8 * index).rgb[::2, ::2].copy()
        _read(segmenter.step(rgb), rgb)


def _read(frame: FrameSegmentation, rgb: NDArray[np.uint8]) -> None:
    """Do what readers of a frame do: pool over its segments, list its runs, build trees."""
    import numpy as np

    from aaams_stream.core.levels import levels_of_frame
    from aaams_stream.core.live_levels import LiveLevels
    from aaams_stream.core.pool import pool
    from aaams_stream.kernels import label_maps, measure, wire
    from aaams_stream.params import Params

    ids = frame.ids
    pool(ids, rgb)
    levels_of_frame(frame)
    live = LiveLevels((ids.shape[0], ids.shape[1]), Params())
    live.update(frame)
    live.groups(2)
    live.merges()
    rows, lengths = np.empty(ids.size, np.uint32), np.empty(ids.size, np.uint16)
    runs = measure.find_runs(ids, np.unique(ids), rows, lengths)
    codes, values = np.empty(3 * ids.size, np.uint8), np.empty(8 * ids.size, np.uint8)
    wire.code_runs(rows, lengths, runs, ids.shape[1], codes, values)
    label_maps.move_ids(ids, 0, np.unique(ids), np.empty_like(ids), 0, 1)


def warm_metrics() -> None:
    """Score a clip of next to nothing."""
    import numpy as np

    from aaams_stream.metrics import score_video

    ids = np.array([[[1, 1, 2]]])
    score_video(ids, ids, np.zeros((1, 1, 3, 3), dtype=np.uint8))


def warm_export() -> None:
    """Encode, pool and follow something small."""
    import dataclasses

    import numpy as np

    from aaams_stream.core.pool import pool
    from aaams_stream.kernels import rle
    from aaams_stream.objects.tracker import follow
    from aaams_stream.run.compiled import Segmenter
    from aaams_stream.source.demo import demo_frame

    labels, boxes = np.zeros((1, 1), np.int32), np.array([[0, 0, 1, 1]], np.int32)
    bounds = np.zeros(2, np.int64)
    rle.encode_masks(labels, labels[0], boxes, np.empty(32, np.uint8), bounds)
    rle.find_crop_runs(labels, labels[0], boxes, np.empty(32, np.int32), bounds)
    pictures = [demo_frame(index).rgb[::2, ::2].copy() for index in range(2)]
    segmenter = Segmenter()
    frames = [dataclasses.replace(segmenter.step(rgb), rgb=rgb) for rgb in pictures]
    pool(frames[0].ids, pictures[0])
    for _ in follow(frames, frames[0].ids == frames[0].ids[60, 80]):
        pass


@functools.cache
def warm_following() -> None:
    """Follow something small, once in a process, with kernels that another one compiled."""
    from aaams_stream.jit import compile_following

    compile_following()
    warm_export()


# What `aaams-stream warmup SUBJECT` runs.
RECIPES = {
    "image": warm_image,
    "video": warm_stream,
    "evaluate": warm_metrics,
    "export": warm_export,
}


def stream_calls() -> list[Call]:
    """Return which kernels a stream calls, and with arguments of which types.

    Told by a stream of stamp-sized frames in which the kernels run as plain Python. Rare ones do
    not come up there; what is missing here is compiled when it is first called.
    """
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.jit import plain_kernels
    from aaams_stream.params import Params
    from aaams_stream.source.demo import demo_frame

    # a narrow window spares Python most of the work; the scale makes a frame of 60 one of 48
    settings = Params().updated({"stream": {"scale": 0.8}, "space": {"sigma2": 1.5}})
    with plain_kernels() as calls:
        segmenter = Segmenter(settings)
        for index in range(2):  # a cold frame and a warm one
            rgb = demo_frame(8 * index).rgb[::4, :240:4].copy()
            _read(segmenter.step(rgb), rgb)
    return calls
