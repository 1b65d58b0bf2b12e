"""The script that previews a camera."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support import ROOT
from support.clips import moving_frames, write_clip
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


@pytest.mark.skipif(os.name != "posix", reason="a shell script stands in for the browser")
def test_script_opens_the_browser_without_the_token_among_its_words(tmp_path):
    """Everybody on a machine can read with which words a process was started."""
    clip = write_clip(tmp_path / "clip.mkv", moving_frames(6))
    browser, told = tmp_path / "browser", tmp_path / "told"
    browser.write_text(f'#!/bin/sh\necho "$@" > {told}.part && mv {told}.part {told}\n')
    browser.chmod(0o700)
    script = ROOT / "pipelines" / "webcam_preview.py"
    run = subprocess.run(
        [sys.executable, script, clip],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "BROWSER": f"{browser} %s", "DISPLAY": ":9"},
    )
    assert run.returncode == 0, run.stderr
    assert "?token=" in run.stdout
    assert told.read_text().startswith("file://")
    assert "token" not in told.read_text()
