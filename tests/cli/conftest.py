"""What tests of commands share: a photo to segment."""

from __future__ import annotations

import cv2
import pytest
from support import synthetic


@pytest.fixture
def photo(tmp_path):
    """Write a small scene as a PNG and return its path."""
    path = tmp_path / "photo.png"
    cv2.imwrite(str(path), cv2.cvtColor(synthetic.discs(48, 72).rgb, cv2.COLOR_RGB2BGR))
    return path
