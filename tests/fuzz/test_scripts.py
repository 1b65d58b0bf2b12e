"""Campaigns that are programs of their own: what they find is told."""

from __future__ import annotations

import os

import pytest

from fuzz import races
from fuzz.scripts import lines_of


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_races_are_counted(tmp_path):
    counted = []
    assert races.campaign(2, 0, tmp_path, done=counted.append) == []
    assert counted == [2]


def test_a_program_that_fails_is_told(tmp_path):
    told = []
    wrong = lines_of(
        ("kill_by_clock.py", tmp_path / "none.mkv", tmp_path, 1, 0), told.append, print
    )
    assert wrong[:-1] == told
    assert wrong[-1] == "kill_by_clock.py ended with 1"
