"""Progress on stderr."""

from __future__ import annotations

import os
import re
import sys

from aaams_stream.cli.meter import BatchMeter, Meter, printable
from aaams_stream.run.batch import Outcome, Standing
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


def standing(running, *outcomes, **changes):
    settled = {"videos": 3, "seconds": 60.0, "seconds_left": 90.0, "stopping": False}
    return Standing(running=running, outcomes=outcomes, **{**settled, **changes})


DONE = Outcome("a.mp4", "v/a.mp4", "o/a.mp4.zarr", "done", frames=100, fps=24.0)
FAILED = Outcome("b\x1b.mp4", "v/b\x1b.mp4", "o/b.zarr", "failed", note="v/b\x1b.mp4: no film")
RUNNING = {"c.mp4": progress(50), "d.mp4": None}


def test_batch_meter_prints_news_at_once_and_the_rest_every_ten_seconds(capsys):
    now = 0.0
    meter = BatchMeter(quiet=False, clock=lambda: now)
    meter.show(standing(RUNNING))
    assert capsys.readouterr().err == ""
    now = 3.0
    meter.show(standing(RUNNING, DONE))
    assert capsys.readouterr().err == "a.mp4: done, 100 frames, 24.0 fps\n"
    now = 10.0
    meter.show(standing(RUNNING, DONE, FAILED))
    meter.show(standing(RUNNING, DONE, FAILED))
    meter.show(standing(RUNNING, DONE, FAILED, stopping=True))
    meter.show(standing(RUNNING, DONE, FAILED, stopping=True))
    meter.close()
    assert capsys.readouterr().err.splitlines() == [
        "error: v/b\\x1b.mp4: no film",
        "c.mp4: frame 50/100, 12.5 fps, 210 segments, 93% warm, 1:15 left",
        "d.mp4: getting ready",
        "2 of 3 videos, 1 failed, 12.5 fps, 1:00, about 1:30 left",
        "finishing the chunks at hand (Ctrl-C again stops at once)",
    ]


def test_batch_meter_tells_nothing_but_errors_if_quiet(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    meter = BatchMeter(quiet=True)
    meter.show(standing(RUNNING, DONE, FAILED, stopping=True))
    meter.close()
    assert capsys.readouterr().err == "error: v/b\\x1b.mp4: no film\n"


def screen(text):
    """Return the lines that a terminal shows after a text."""
    lines, at = [""], 0
    for part in re.split(r"(\r|\n|\x1b\[\d*A|\x1b\[J|\x1b\[\?7[lh])", text):
        if part == "\n":
            at += 1
            lines += [""] * (at == len(lines))
        elif part.endswith("A") and part.startswith("\x1b"):
            at -= int(part[2:-1])
        elif part == "\x1b[J":
            lines = [*lines[:at], ""]
        elif not part.startswith(("\r", "\x1b")):
            lines[at] += part
    return lines[:-1]


def test_batch_meter_keeps_a_table_at_the_bottom_of_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    now = 0.0
    meter = BatchMeter(quiet=False, clock=lambda: now)
    meter.show(standing({"a.mp4": progress(99), "c.mp4": None}))
    now = 0.05
    meter.show(standing({"a.mp4": progress(100), "c.mp4": None}))  # too soon to draw again
    shown = capsys.readouterr().err
    assert [line.split(" ", 1)[1].split(",")[0] for line in screen(shown)] == [
        *("a.mp4: frame 99/100", "c.mp4: getting ready", "0 of 3 videos")
    ]
    now = 0.06
    meter.show(standing(RUNNING, DONE))  # but news are told at once
    shown += capsys.readouterr().err
    assert screen(shown)[0] == "a.mp4: done, 100 frames, 24.0 fps"
    assert screen(shown)[1].startswith("████████████············ c.mp4: frame 50/100, 12.5 fps")
    assert [line[:6] for line in screen(shown)[1:]] == ["██████", "······", "██████"]
    meter.close()
    assert screen(shown + capsys.readouterr().err) == ["a.mp4: done, 100 frames, 24.0 fps"]


def test_batch_meter_draws_no_more_lines_than_there_are(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(
        "aaams_stream.cli.meter.shutil.get_terminal_size", lambda: os.terminal_size((80, 6))
    )
    meter = BatchMeter(quiet=False)
    meter.show(standing({f"{n}.mp4": None for n in range(8)}, videos=9))
    lines = screen(capsys.readouterr().err)
    assert len(lines) == 4
    assert lines[2] == "… 6 more at work"
    assert "0 of 9 videos" in lines[3]


def test_printable_shows_what_a_terminal_would_obey():
    assert printable("a\nb\x1b[J\udcff ü") == "a\\nb\\x1b[J\\udcff ü"
