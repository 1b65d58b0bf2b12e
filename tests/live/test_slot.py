"""The slot between reader and compute thread: one place, a gate, and who waits for whom."""

from __future__ import annotations

import threading
from fractions import Fraction

import numpy as np
import pytest
from support.clocks import PATIENCE, HandClock

from aaams_stream.live.clock import PresentationTimes
from aaams_stream.live.slot import FrameSlot
from aaams_stream.model import Frame

FRAMES = [Frame(index, Fraction(index, 4), np.zeros((2, 2, 3), np.uint8)) for index in range(9)]


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def slot(clock):
    opened = FrameSlot(clock)
    opened.open()
    return opened


def in_thread(work, *args):
    """Run something that may wait; return a function that waits for its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(work(*args)))
    thread.start()

    def result():
        thread.join(PATIENCE)
        return results[0]

    return result


def test_slot_gives_the_place_of_a_frame_not_taken_to_a_newer_one(slot):
    slot.offer(FRAMES[0])
    slot.offer(FRAMES[1])
    assert slot.dropped == 1
    assert slot.take().frame is FRAMES[1]
    slot.offer(FRAMES[2])
    assert slot.dropped == 1
    assert slot.take().frame is FRAMES[2]


def test_slot_lets_a_taker_wait_for_a_frame(slot):
    taken = in_thread(slot.take)
    slot.offer(FRAMES[0])
    assert taken().frame is FRAMES[0]


def test_slot_keeps_when_a_frame_came(slot, clock):
    clock.advance(3)
    slot.offer(FRAMES[0])
    clock.advance(2)
    assert slot.take().at == 3


def test_slot_calls_nothing_dropped_before_it_is_opened(clock):
    slot = FrameSlot(clock)
    for frame in FRAMES:
        slot.offer(frame)
    assert slot.dropped == 0
    slot.open()
    assert slot.take().frame is FRAMES[-1]


def test_slot_lets_nothing_through_in_a_pause_but_steps(slot, clock):
    slot.pause()
    taken = in_thread(slot.take)
    for frame in FRAMES[:3]:
        slot.offer(frame)
    clock.advance(5)
    slot.step()
    assert taken() == (FRAMES[2], 5)  # it did not come late: it was waited for
    assert slot.dropped == 0
    assert slot.paused


def test_slot_lets_a_step_wait_for_its_frame(slot):
    slot.step()
    slot.step()
    for frame in FRAMES[:2]:
        slot.offer(frame)
        assert slot.take().frame is frame
    taken = in_thread(slot.take)
    slot.offer(FRAMES[2])
    slot.resume()
    assert taken().frame is FRAMES[2]
    assert not slot.paused


def test_slot_forgets_steps_when_it_goes_on(slot):
    slot.step()
    slot.resume()
    slot.pause()
    taken = in_thread(slot.take)
    slot.offer(FRAMES[0])
    slot.offer(FRAMES[1])
    slot.step()
    assert taken().frame is FRAMES[1]


def test_slot_takes_a_file_at_its_times(slot, clock):
    times = PresentationTimes()
    assert slot.offer_when_due(FRAMES[0], times)
    offered = in_thread(slot.offer_when_due, FRAMES[1], times)
    clock.advance_to_next()
    assert offered()
    assert clock.now() == 0.25
    assert slot.take() == (FRAMES[1], 0.25)
    assert slot.dropped == 1  # who does not take in time misses frames of a file, too


def test_slot_lets_a_file_wait_while_nobody_takes(slot, clock):
    times = PresentationTimes()
    slot.pause()
    assert slot.offer_when_due(FRAMES[0], times)
    offered = in_thread(slot.offer_when_due, FRAMES[1], times)
    clock.advance(10)
    slot.step()
    assert slot.take().frame is FRAMES[0]
    assert offered()
    slot.resume()
    assert slot.take().frame is FRAMES[1]
    assert slot.dropped == 0
    offered = in_thread(slot.offer_when_due, FRAMES[2], times)
    clock.advance_to_next()
    assert offered()
    assert clock.now() == 10.25  # its times went on from the frame before


def test_slot_wakes_a_file_that_waits_for_its_time_when_a_pause_begins(slot, clock):
    times = PresentationTimes()
    slot.offer_when_due(FRAMES[0], times)
    slot.take()
    offered = in_thread(slot.offer_when_due, FRAMES[8], times)
    slot.pause()
    assert offered()
    assert clock.now() == 0


def test_slot_hands_out_the_last_frame_before_it_tells_of_the_end(slot):
    slot.offer(FRAMES[0])
    slot.end("complete")
    assert slot.take().frame is FRAMES[0]
    assert slot.take() is None
    assert slot.ended == "complete"


def test_slot_keeps_the_last_frame_through_a_pause(slot):
    slot.pause()
    slot.offer(FRAMES[0])
    slot.end("complete")
    taken = in_thread(slot.take)
    slot.step()
    assert taken().frame is FRAMES[0]


def test_slot_lets_nobody_wait_once_it_is_closed(slot):
    times = PresentationTimes()
    slot.offer_when_due(FRAMES[0], times)
    slot.take()
    taken = in_thread(slot.take)
    offered = in_thread(slot.offer_when_due, FRAMES[8], times)
    slot.close()
    assert taken() is None
    assert not offered()
    assert not slot.offer(FRAMES[1])
    assert slot.take() is None
    slot.pause()
    assert not slot.offer_when_due(FRAMES[2], times)
