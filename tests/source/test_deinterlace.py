"""Interlaced pictures made whole."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
from support.clips import read_source, write_clip


def test_deinterlacer_makes_frames_whole_one_for_one(tmp_path):
    options = {"flags": "+ildct+ilme"}
    combed = []
    for index in range(6):  # two fields, in which a square stands at different places
        frame = np.full((64, 96, 3), 40, np.uint8)
        for field in range(2):
            left = 8 + 8 * (2 * index + field) % 60
            frame[field::2, left : left + 24] = 220
        combed.append(frame)
    path = write_clip(
        tmp_path / "a.mpg", combed, codec="mpeg2video", pix_fmt="yuv420p", options=options
    )
    with av.open(str(path)) as container:
        raw = list(container.decode(video=0))
    assert raw[1].interlaced_frame
    frames, _ = read_source(path)
    assert len(frames) == len(raw)
    assert [f.time for f in frames] == [Fraction(f.pts * f.time_base) for f in raw]

    def comb(rgb):
        return np.abs(np.diff(rgb[:, :, 1].astype(int), axis=0)).mean()

    assert comb(frames[3].rgb) < 0.5 * comb(raw[3].to_ndarray(format="rgb24"))
