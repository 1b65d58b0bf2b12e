"""Processes that begin one volume at the same moment, over what dead ones left: one wins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fuzz.scripts import lines_of

ROUNDS = 200


def campaign(
    limit: int | float,
    seed: int,
    folder: Path,
    tell: Callable[[str], None] | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """Race in `limit` rounds, or ROUNDS if it is a float; return failures. Nothing is drawn."""
    rounds = limit if isinstance(limit, int) else ROUNDS
    return lines_of(("race.py", folder, rounds), tell, done)
