"""Tries cases one after the other in a process that may crash or hang, and notes what is wrong."""

from __future__ import annotations

import contextlib
import io
import itertools
import multiprocessing
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE = 600.0  # seconds until a case counts as one that hangs, on a busy machine


@dataclass
class Report:
    """What a campaign came to."""

    cases: int = 0
    seconds: float = 0.0
    failures: list[tuple[Any, str]] = field(default_factory=list)  # case, what was wrong


def campaign(
    module: Any,
    seed: int = 0,
    *,
    count: int | None = None,
    seconds: float | None = None,
    tell: Callable[[str], None] = lambda line: None,
    done: Callable[[int], None] = lambda count: None,
) -> Report:
    """Try the cases of a campaign, each in a process beside, until `count` or `seconds` are up.

    tell: called with each that is wrong as it is found; done: with the number of cases so far.
    """
    report, begun = Report(), time.monotonic()
    with _Beside(module.__name__) as beside:
        for case in itertools.islice(module.cases(seed), count):
            if seconds is not None and time.monotonic() - begun >= seconds:
                break
            wrong = beside.ask(case)
            report.cases += 1
            if wrong:
                report.failures.append((case, wrong))
                tell(f"{case}: {wrong}")
            done(report.cases)
    report.seconds = time.monotonic() - begun
    return report


def tried(check: Callable[[Any], str | None], case: Any) -> str | None:
    """Try a case here; an error that nobody foresaw is wrong, too."""
    try:
        return check(case)
    except Exception:
        return traceback.format_exc()


class _Beside:
    """A process that tries cases, begun anew after a crash or a hang."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: Any = None

    def __enter__(self) -> _Beside:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def ask(self, case: Any) -> str | None:
        if self._process is None:
            spawn = multiprocessing.get_context("spawn")
            self._pipe, theirs = spawn.Pipe()
            self._process = spawn.Process(target=_work, args=(self._module, theirs), daemon=True)
            self._process.start()
            theirs.close()
            self._pipe.recv()  # it is ready: kernels may have to be compiled first
        try:
            self._pipe.send(case)
            if self._pipe.poll(PATIENCE):
                answer: str | None = self._pipe.recv()
                return answer
            wrong = f"no end within {PATIENCE:.0f} s"
        except (EOFError, OSError):
            self._process.join(PATIENCE)
            wrong = f"the process died with {self._process.exitcode}"
        self._end()
        return wrong

    def _end(self) -> None:
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._process = None


def _work(module: str, pipe: Any) -> None:
    import importlib

    with tempfile.TemporaryDirectory() as folder:
        check = importlib.import_module(module).Check(Path(folder))
        pipe.send(None)
        with contextlib.suppress(EOFError):
            while True:
                pipe.send(tried(check, pipe.recv()))


def called(words: list[str]) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code, stdout and stderr."""
    from aaams_stream.cli import main

    out, err = _Text(), _Text()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as left:
            code = left.code
    return code, out.told(), err.told()


class _Text(io.TextIOWrapper):
    """A stream of UTF-8 as strict as that of a terminal's standard output."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def told(self) -> str:
        return self.buffer.getvalue().decode()  # type: ignore[attr-defined]


def what_is_wrong_with(code: object, out: str, err: str) -> str | None:
    """Say what a user may not meet, in what a command left behind."""
    last = err.splitlines()[-1] if err.splitlines() else ""
    if "Traceback" in err or "Traceback" in out:
        return err
    if code not in (0, 2):
        return f"exit code {code}: {err}"
    if code == 2 and not last.startswith("error: "):
        return f"exit code 2 without an error in the last line: {err!r}"
    if code == 2 and err.count("error: ") != 1:
        return f"not one error: {err!r}"
    return None
