"""What tests share: drawn scenes and clips, slow references, stand-ins."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
ROOT = TESTS.parent
