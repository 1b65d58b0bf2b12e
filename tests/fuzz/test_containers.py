"""The first few damaged films of the campaign."""

from __future__ import annotations

import itertools

import pytest
from support import standin

from fuzz import containers
from fuzz.harness import tried


@pytest.fixture(autouse=True)
def _tiny_segmenter(monkeypatch):
    standin.take_over(monkeypatch)


@pytest.mark.parametrize("seed", range(6))
def test_damaged_films_are_read_as_far_as_they_decode_or_refused_in_a_line(tmp_path, seed):
    check = containers.Check(tmp_path)
    cases = itertools.islice(containers.cases(seed), 10)
    wrong = [(case, said) for case in cases if (said := tried(check, case))]
    assert wrong == []


def test_the_campaign_notices_frames_that_are_lost(tmp_path, monkeypatch):
    """A net that lets everything through would find nothing either."""
    case = next(case for case in containers.cases(0) if case.how == "flip")
    check = containers.Check(tmp_path)
    assert check(case) is None
    decodes = containers.decodable
    monkeypatch.setattr(containers, "decodable", lambda film: decodes(film) + 99)
    assert "that decode" in check(case)
