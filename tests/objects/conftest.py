"""What the tests of the tracker share."""

from __future__ import annotations

import pytest
from support.followed import segmented_demo

from aaams_stream.model import FrameSegmentation


@pytest.fixture(scope="session")
def clip() -> list[FrameSegmentation]:
    """Return the demo clip, segmented."""
    return segmented_demo()
