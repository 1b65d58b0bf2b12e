"""What the package makes of drawn scenes is kept bit for bit."""

from __future__ import annotations

import json

import pytest
from golden import digests


@pytest.mark.parametrize("subject", ["clips", "images", "points"])
def test_drawn_scenes_give_the_bits_that_are_kept(subject):
    file = digests.kept_file()
    if not file.exists():
        pytest.skip(f"other processor: no digests are kept for {digests.machine()}")
    kept = json.loads(file.read_text(encoding="utf-8"))["digests"][subject]
    found = getattr(digests, f"of_drawn_{subject}")()
    assert digests.differences(kept, found) == []


def test_differences_are_named():
    kept = {"a": {"x": "1", "y": "2"}, "b": {"x": "3"}}
    assert digests.differences(kept, kept) == []
    found = {"a": {"x": "1", "y": "9"}, "c": {"x": "3"}}
    assert digests.differences(kept, found) == ["a/y", "b", "c"]
