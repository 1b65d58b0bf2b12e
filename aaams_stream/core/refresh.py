"""Which part of a frame is re-estimated though it was explained: no early error lives for ever."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from aaams_stream.core.propagate import REFRESH, Propagated
from aaams_stream.core.state import SegmenterState
from aaams_stream.core.tuning import Tuning
from aaams_stream.kernels import refresh as kernels
from aaams_stream.params import Params


def schedule_refresh(
    seen: Propagated, state: SegmenterState, params: Params, tuning: Tuning
) -> NDArray[np.bool_]:
    """Drop the labels of a share of the picture; return which segments (k,) were dropped whole.

    Segments take turns as a whole; those too large for that do so tile by tile, which keeps the
    work of all frames alike. While there are fewer segments than wanted, as much again goes to
    those that spread most in colour, and more where many are wanted: small ones are lost sooner.
    """
    tracks, refresh, labels = state.tracks, params.stream.refresh, seen.pixels.kept
    turn = state.scene_frame % refresh
    stays = tracks.ids == 0  # what lies outside the region of interest
    budget = tuning.refresh_large * (labels.size - int(tracks.area[stays].sum())) / refresh
    large = (tracks.area > budget) & ~stays
    due = (state.scene_ids % refresh == turn) & ~large & ~stays
    more = params.stream.segments / tuning.usual_segments
    if tracks.count < params.stream.segments and (state.level > tuning.noise_level or more > 1):
        budget *= max(more, 1.0) ** tuning.refresh_more
        rested = (state.index - tracks.refreshed >= tuning.refresh_rest) & ~large & ~stays
        coarse = np.argsort(np.where(rested, -tracks.colour_sse, 0.0), kind="stable")
        due[coarse[rested[coarse] & (np.cumsum(tracks.area[coarse]) <= budget)]] = True
    stay = np.arange(len(due), dtype=np.int32)
    kernels.drop_labels(
        labels,
        np.where(due, np.int32(REFRESH), stay),
        np.where(due | large, np.int32(REFRESH), stay),
        tuning.refresh_tile,
        refresh,
        turn,
    )
    return np.asarray(due, np.bool_)
