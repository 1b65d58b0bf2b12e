"""The reader's thread: frames of a source, each at its time."""

from __future__ import annotations

import pytest
from support.cameras import GatedSource
from support.clocks import HandClock
from support.live import PARAMS, newest, wait_for_phase, watch

from aaams_stream.live import LiveLoop
from aaams_stream.source import open_source

pytestmark = pytest.mark.usefixtures("compiled")


def test_reader_plays_a_file_at_its_presentation_times(clip):
    source, clock = GatedSource(open_source(clip)), HandClock()
    with LiveLoop(source, PARAMS, fps=0, clock=clock) as loop:
        source.send()
        shown = watch(loop, 1)
        source.release()
        for number in range(1, 12):
            clock.advance_to_next()
            shown += watch(loop, 1, after=number)
        assert wait_for_phase(loop, "ended").message == "complete"
        assert loop.status.dropped == 0
    assert [frame.frame.index for frame in shown] == list(range(12))
    times = [float(frame.frame.time) for frame in shown]
    assert [frame.captured for frame in shown] == pytest.approx(times)


def test_reader_lets_times_grow_on_when_a_file_is_repeated(clip):
    loop = LiveLoop(open_source(clip), PARAMS, fps=0, reopen=lambda: open_source(clip))
    with loop:
        times = [frame.segmentation.time for frame in watch(loop, 20)]
    assert times == sorted(set(times))
    assert times[-1] >= 19 / 20 - 1e-9


def test_reader_thins_a_source_out_to_a_wanted_rate_without_calling_it_dropped(clip):
    with LiveLoop(open_source(clip), PARAMS, fps=10) as loop:
        wait_for_phase(loop, "ended")
        count, dropped = newest(loop).number, loop.status.dropped
        assert newest(loop).frame.index == 10
    assert count + dropped == 6
