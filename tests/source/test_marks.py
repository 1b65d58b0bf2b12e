"""Marks: few, in order, and the same after they were saved."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from aaams_stream.source import marks
from aaams_stream.source.marks import Entry, Mark, Marks, Sizes, checksum


def marked(entries):
    """Return the marks of a reading that hands out ten frames after each entry."""
    kept = Marks()
    for frame in range(10 * len(entries)):
        entry = entries[frame // 10]
        if kept.offer(frame, entry):
            sizes = Sizes((64, 48), frame % 3, (frame, 32, 24))
            kept.add(Mark(frame, frame / 25, 2**32 - 1 - frame, entry, sizes))
    return kept


def entries(count):
    return [Entry((100 * n, 7 * n), (n, 2 * n), n % 2 == 1) for n in range(count)]


def test_marks_are_one_for_each_entry():
    assert [mark.frame for mark in marked(entries(5)).before(1000)] == [0, 10, 20, 30, 40]
    assert [mark.frame for mark in marked(entries(5)).before(30)] == [0, 10, 20]


def test_marks_come_back_from_an_array_as_they_were():
    kept = marked(entries(5))
    rows = kept.to_array(35)
    assert Marks.from_array(rows).before(1000) == kept.before(35)
    assert len(rows) == 4


def test_marks_that_another_version_wrote_are_none():
    rows = marked(entries(5)).to_array(1000)
    assert Marks.from_array(rows[["frame", "seconds"]]).before(1000) == []
    assert Marks.from_array(None).before(1000) == []


def test_marks_stay_few_and_far_apart_however_long_the_film_is(monkeypatch):
    monkeypatch.setattr(marks, "_MOST", 16)
    frames = [mark.frame for mark in marked(entries(1000)).before(10_000)]
    assert 8 <= len(frames) <= 16
    assert frames[0] == 0
    assert max(np.diff([*frames, 10_000])) <= 2 * 10_000 / 8


def test_marks_that_were_saved_are_not_made_again():
    kept = Marks.from_array(marked(entries(3)).to_array(1000))
    later = Entry((900, 63))
    assert not kept.offer(20, later)
    assert kept.offer(21, later)


def test_checksum_tells_times_and_pixels_apart():
    rgb = np.zeros((4, 6, 3), np.uint8)
    other = rgb.copy()
    other[3, 5, 2] = 1
    sums = {
        checksum(Fraction(1, 3), rgb),
        checksum(Fraction(1, 4), rgb),
        checksum(Fraction(1, 3), other),
    }
    assert len(sums) == 3
    assert checksum(Fraction(2, 6), rgb.copy()) in sums
