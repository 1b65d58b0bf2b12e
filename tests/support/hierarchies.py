"""Trees over identities that are drawn at random, and films in which the identities are seen."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.model import HIERARCHY_DTYPE
from support.older import edit_record


def drawn_merges(rng: np.random.Generator, *scenes: int) -> NDArray[Any]:
    """Return a tree for each scene of so many identities, whose ids follow on each other."""
    rows, first = [], 1
    for count in scenes:
        alive = list(range(first, first + count))
        first += count
        level = 0.0
        while len(alive) > 1:
            survivor, absorbed = sorted(rng.choice(alive, 2, replace=False).tolist())
            level += rng.choice([0.0, 0.25, 1.0]) if level else 0.5
            rows.append((survivor, absorbed, level))
            alive.remove(absorbed)
    return np.array(rows, HIERARCHY_DTYPE)


def drop_levels(path: Path) -> None:
    """Make a volume one of schema 2, as earlier builds wrote it but for checksums."""
    for table in ("hierarchy", "objects"):
        shutil.rmtree(path / table)
    edit_record(path, schema=2)
