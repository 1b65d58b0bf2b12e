"""What runs as a program of its own: it forks processes, which are killed or race each other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1]


def lines_of(
    words: Sequence[object], tell: Callable[[str], None] | None, done: Callable[[int], None]
) -> list[str]:
    """Run a script of `tests/support`; return what it finds wrong, line by line, told as it comes.

    done: called with the numbers it prints last, of which the first is how many cases there were.
    """
    script, *rest = map(str, words)
    wrong = []
    with subprocess.Popen(
        [sys.executable, str(TESTS / "support" / script), *rest],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(TESTS.parent), str(TESTS)))},
    ) as running:
        assert running.stderr is not None
        assert running.stdout is not None
        for line in running.stderr:
            wrong.append(line.rstrip())
            if tell is not None:
                tell(wrong[-1])
        numbers = running.stdout.read().split()
    if running.returncode or not numbers:
        wrong.append(f"{script} ended with {running.returncode}")
    else:
        done(int(numbers[0]))
        if int(numbers[-1]) and not wrong:
            wrong.append(f"{script}: {' '.join(numbers)}")
    return wrong
