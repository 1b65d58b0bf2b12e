"""What tests of the site share: its generators, which are no part of the package."""

from __future__ import annotations

import sys

import pytest
from support import ROOT


@pytest.fixture(scope="session")
def generate():
    """Return the package that writes the generated pages."""
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import generate
    finally:
        sys.path.pop(0)
    return generate
