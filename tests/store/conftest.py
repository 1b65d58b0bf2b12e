"""Two volumes that tests of the store read: a drawn clip, and the demo."""

from __future__ import annotations

import dataclasses

import pytest
from support.volumes import HEADER, VERSION, fill

from aaams_stream import open_volume, segment_video, store


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """Write a complete volume of 29 frames with pictures; return it and what was written."""
    path = tmp_path_factory.mktemp("whole") / "whole.zarr"
    writer = store.create(path, dataclasses.replace(HEADER, with_video=True), VERSION)
    results = fill(writer, 29)
    writer.finish("complete")
    return path, results


@pytest.fixture(scope="session")
def demo_path(tmp_path_factory):
    """Segment a second of the demo, with pictures."""
    target = tmp_path_factory.mktemp("volume") / "demo.zarr"
    segment_video("demo", target, duration=1, size=(160, 120), with_video=True)
    return target


@pytest.fixture
def volume(demo_path):
    return open_volume(demo_path)
