"""What those who look on may know of a loop."""

from __future__ import annotations

from fractions import Fraction

import cv2
import numpy as np
import pytest
from support import standin
from support.cameras import GatedSource, Slides
from support.clips import moving_frames
from support.clocks import PATIENCE, HandClock
from support.live import PARAMS, wait_for_phase, watch

from aaams_stream.draw.views import boundaries, draw_view
from aaams_stream.live import LiveLoop
from aaams_stream.live.board import OBJECT_COLOURS, Board
from aaams_stream.live.slot import Captured
from aaams_stream.model import Frame
from aaams_stream.objects.follower import Scene, Sighting


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def board(clock):
    return Board(clock)


def publish(board, index=0, at=0.0):
    """Show a frame that came in at a time; return it and its segments."""
    frame = Frame(index, Fraction(index, 4), moving_frames(index + 1)[index])
    found = standin.Segmenter().step(frame.rgb)
    merges = np.array([[row, row + 1] for row in range(len(found.segments) - 1)][::-1], np.int32)
    board.publish(Captured(frame, at), found, merges.reshape(-1, 2))
    return frame, found


@pytest.mark.usefixtures("compiled")
def test_board_tells_the_frame_rate_of_late():
    camera, clock = GatedSource(Slides(moving_frames(20))), HandClock()
    with LiveLoop(camera, PARAMS, clock=clock) as loop:
        wait_for_phase(loop, "running")
        assert loop.status.fps == 0
        for sent in range(100):
            camera.send()
            watch(loop, 1, after=sent)
            clock.advance(1 / 16 if sent < 50 else 1 / 4)
            if sent == 49:
                assert loop.status.fps == 16
        assert loop.status.fps == 4


def test_board_numbers_what_is_published_and_says_when_it_came_and_was_done(board, clock):
    assert board.newest is None
    for number in (1, 2, 3):
        clock.advance(0.5)
        frame, found = publish(board, index=2 * number, at=clock.now() - 0.25)
        shown = board.newest
        assert (shown.number, shown.frame, shown.segmentation) == (number, frame, found)
        assert (shown.captured, shown.finished) == (0.5 * number - 0.25, 0.5 * number)


def test_board_gives_every_change_a_newer_version(board):
    version, shown = board.wait(-1, 0)
    assert shown is None
    for change in (board.touch, lambda: board.enter("running"), lambda: publish(board)):
        change()
        newer, shown = board.wait(version, PATIENCE)
        assert newer > version
        version = newer
    assert shown is board.newest
    assert board.wait(version, 0) == (version, shown)  # nothing came


@pytest.mark.parametrize(
    ("error", "message"), [(ValueError("no light"), "no light"), (MemoryError(), "MemoryError")]
)
def test_board_says_what_went_wrong(board, error, message):
    board.fail(error)
    assert board.failure is error
    assert (board.phase, board.message) == ("failed", message)


def test_board_lets_nobody_wait_once_it_is_closed(board):
    version, _ = board.wait(-1, 0)
    assert not board.closed
    board.close()
    assert board.closed
    assert board.wait(version, PATIENCE) == (version, None)


def test_live_frame_is_drawn_with_its_segments_over_it(board):
    frame, found = publish(board)
    drawn = board.newest.drawn("ids", 0.5)
    expected = draw_view(frame.rgb, found.ids, "ids", opacity=0.5, segments=found.segments)
    np.testing.assert_array_equal(drawn, expected)
    assert (drawn != frame.rgb).any()


def test_live_frame_has_its_lines_on_darker_ground(board):
    frame, found = publish(board)
    drawn, lines = board.newest.drawn("boundaries"), boundaries(found.ids)
    near = cv2.dilate(lines.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    np.testing.assert_array_equal(drawn[lines], draw_view(frame.rgb, found.ids)[lines])
    np.testing.assert_array_equal(drawn[~near], frame.rgb[~near])
    beside = near & ~lines
    assert (drawn[beside] <= 0.6 * frame.rgb[beside] + 1).all()


def test_live_frame_has_what_is_followed_in_its_colour(board):
    publish(board)
    labels = np.zeros(board.newest.segmentation.ids.shape, np.uint8)
    labels[10:20, 10:30] = 2
    board.amend(Scene(0, 0.0, labels, (Sighting(2, "seen", 1.0, 200, (10, 10, 30, 20)),)))
    shown = board.newest
    assert (shown.number, shown.revision) == (1, 1)
    drawn = shown.drawn("motion")
    np.testing.assert_array_equal(drawn[10, 10:30], np.tile(OBJECT_COLOURS[1], (20, 1)))
    inside = 0.65 * shown.frame.rgb[15, 20] + 0.35 * np.array(OBJECT_COLOURS[1])
    np.testing.assert_allclose(drawn[15, 20], inside, atol=1)


def test_board_knows_the_last_few_frames(board):
    for _ in range(9):
        publish(board)
    assert [board.recent(number).number for number in (9, 8, 4, 1)] == [9, 8, 4, 9]


def test_live_frame_is_drawn_at_any_number_of_groups(board):
    frame, found = publish(board)
    shown = board.newest
    np.testing.assert_array_equal(shown.groups(len(found.segments)), found.ids)
    for count in range(1, len(found.segments) + 1):
        groups = shown.groups(count)
        assert len(np.unique(groups)) == count
        expected = draw_view(frame.rgb, groups, "objects", opacity=0.5, fine=found.ids)
        np.testing.assert_array_equal(shown.drawn("objects", 0.5, count), expected)
    assert (shown.groups(1) == found.ids.min()).all()


def test_board_stays_failed(board):
    """A source may fail while kernels are loaded, of which the other thread knows nothing."""
    board.fail(OSError("unplugged"))
    board.enter("running")
    assert (board.phase, board.message) == ("failed", "unplugged")
