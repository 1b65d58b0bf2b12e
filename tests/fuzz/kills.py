"""Runs that are killed at any moment and resumed: the volume has the bytes of an unbroken run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.clips import moving_frames, write_clip

from fuzz.scripts import lines_of

KILLS, FRAMES = 100, 40


def campaign(
    limit: int | float,
    seed: int,
    folder: Path,
    tell: Callable[[str], None] | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """Kill `limit` times, or KILLS if it is a float, at moments of the clock; return failures.

    With and without frames, and a film beside.
    """
    clip = write_clip(folder / "clip.mkv", moving_frames(FRAMES))
    count = limit if isinstance(limit, int) else KILLS
    return lines_of(("kill_by_clock.py", clip, folder, count, seed), tell, done)
