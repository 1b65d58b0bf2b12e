"""The volume that tests of exports read: half a second of the demo."""

from __future__ import annotations

import pytest

from aaams_stream import open_volume, segment_video


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    """Segment the demo, with pictures, into few enough ids for an indexed PNG."""
    target = tmp_path_factory.mktemp("volume") / "demo.zarr"
    segment_video("demo", target, duration=0.5, size=(160, 120), with_video=True, segments=40)
    return target


@pytest.fixture
def volume(path):
    return open_volume(path)
