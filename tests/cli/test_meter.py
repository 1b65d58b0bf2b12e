"""Progress on stderr."""

from __future__ import annotations

import sys

from aaams_stream.cli.meter import Meter
from aaams_stream.run.progress import Progress


def progress(frames, **changes):
    settled = {"total": 100, "fps": 12.5, "segments": 210, "warm": 0.934, "seconds_left": 75}
    return Progress(frames=frames, **{**settled, **changes})


def test_meter_draws_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    now = 0.0
    meter = Meter(quiet=False, clock=lambda: now)
    meter.frame(progress(50))
    now = 0.05
    meter.frame(progress(51))  # too soon to draw again
    now = 0.1
    meter.frame(progress(52))
    now = 0.15
    meter.frame(progress(100, total=100, stopping=True))
    meter.close()
    shown = capsys.readouterr().err
    assert "50/100 12.5 fps, 210 segments, 93% warm, 1:15 left" in shown
    assert "51/100" not in shown
    assert "52/100" in shown
    assert "finishing the chunk" in shown
    assert shown.endswith("\n")


def test_meter_says_so_while_there_is_no_pace(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    meter = Meter(quiet=False)
    meter.frame(progress(1, fps=None, seconds_left=None))
    meter.close()
    assert "1/100 getting ready, 210 segments, 93% warm" in capsys.readouterr().err


def test_meter_prints_a_line_every_ten_seconds_elsewhere(capsys):
    now = 0.0
    meter = Meter(quiet=False, clock=lambda: now)
    for second in range(31):
        now = float(second)
        meter.frame(progress(second, total=None, seconds_left=None))
    meter.close()
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["frame 10", "frame 20", "frame 30"]
