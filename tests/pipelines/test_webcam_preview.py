"""The script that previews a camera."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import ROOT
from support.clocks import PATIENCE

pytestmark = pytest.mark.usefixtures("compiled")


def test_script_previews_a_camera():
    script = ROOT / "pipelines" / "webcam_preview.py"
    run = subprocess.run(
        [sys.executable, script, "demo", "--size", "80x60", "--seconds", "2"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "frames" in run.stdout
