"""Settings as nobody should write them: each is refused in a line, or computes."""

from __future__ import annotations

import json
import random
import string
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from aaams_stream.errors import ConfigError
from aaams_stream.params import Params, shipped

_ODD = (
    *("0", "-1", "1", "true", "false", '""', '"fine"', '"size-aware"', "nan", "inf", "-inf"),
    *("1e400", "-0.0", "1e-400", "0x10", "0o7", "9" * 19, "9" * 5000, "1e308", "2147483648"),
    *(
        "[]",
        "[1, 2]",
        "{}",
        "{a = 1}",
        "1979-05-27",
        "07:32:00",
        "'\\'",
        '"\\u0000"',
        "0.5.5",
        "1_0",
    ),
    *("", "=", "value", "1 2", "#", '"""', "[" * 2000, "{a=" * 500, "é", "\0", "\ufeff", "1\n2"),
)
_LINES = ("[post]", "[[post]]", "[stream.x]", "[nothing]", "x", "=", "[", "]", '"', "'''", "\0")


class Case(NamedTuple):
    """A file of settings, texts for --set, and whether to compute with what comes of them."""

    toml: bytes
    assignments: tuple[str, ...]
    compute: bool

    def __repr__(self) -> str:
        return f"{self.toml[:300]!r} {[text[:100] for text in self.assignments]}"


def cases(seed: int) -> Iterator[Case]:
    """Draw files of settings, most of them wrong in one place."""
    rng = random.Random(seed)
    texts = [path.read_text(encoding="utf-8") for path in shipped().values()]
    while True:
        lines = rng.choice(texts).splitlines() if rng.random() < 0.8 else []
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            lines = rng.choice(WAYS)(rng, lines)
        toml = "\n".join(lines).encode("utf-8", "surrogatepass")
        if rng.random() < 0.2:
            toml = _damaged(rng, toml)
        texts_set = tuple(_assignment(rng) for _ in range(rng.choice((0, 0, 1, 2))))
        yield Case(toml, texts_set, rng.random() < 0.25)


def _value(rng: random.Random) -> str:
    if rng.random() < 0.5:
        return rng.choice(_ODD)
    number = rng.choice((rng.random(), rng.randrange(-9, 400), 10 ** rng.uniform(-9, 9)))
    return str(number)


def _known(rng: random.Random) -> str:
    tables = Params().to_dict()
    table = rng.choice(sorted(tables))
    return f"{table}.{rng.choice(sorted(tables[table]))}"


def _assignment(rng: random.Random) -> str:
    name = _known(rng) if rng.random() < 0.8 else rng.choice((*_LINES, "a.b", "post.", ".level"))
    return f"{name}={_value(rng)}" if rng.random() < 0.95 else name


def _change(rng: random.Random, lines: list[str]) -> list[str]:
    at = [n for n, line in enumerate(lines) if "=" in line]
    if not at:
        return _add(rng, lines)
    n = rng.choice(at)
    key = lines[n].partition("=")[0]
    return [*lines[:n], f"{key}= {_value(rng)}", *lines[n + 1 :]]


def _rename(rng: random.Random, lines: list[str]) -> list[str]:
    if not lines:
        return _add(rng, lines)
    n = rng.randrange(len(lines))
    letters = list(lines[n])
    for _ in range(rng.choice((1, 3))):
        letters.insert(rng.randrange(len(letters) + 1), rng.choice(string.printable))
    return [*lines[:n], "".join(letters), *lines[n + 1 :]]


def _add(rng: random.Random, lines: list[str]) -> list[str]:
    table, key = _known(rng).split(".")
    line = rng.choice((*_LINES, f"[{table}]\n{key} = {_value(rng)}", f"{table}.{key} = 1"))
    n = rng.randrange(len(lines) + 1)
    return [*lines[:n], line, *lines[n:]]


def _remove(rng: random.Random, lines: list[str]) -> list[str]:
    n = rng.randrange(len(lines) + 1)
    return [*lines[:n], *lines[n + rng.choice((1, 5)) :]]


WAYS = (_change, _change, _change, _rename, _add, _remove)


def _damaged(rng: random.Random, toml: bytes) -> bytes:
    n = rng.randrange(len(toml) + 1)
    return rng.choice((toml[:n], toml[:n] + rng.randbytes(3) + toml[n:]))


class Check:
    """Reads settings, and computes with some."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "settings.toml"
        rng = np.random.default_rng(0)
        coarse = rng.integers(0, 256, (2, 3, 4, 3), np.uint8)
        self._frames = coarse.repeat(6, axis=1).repeat(6, axis=2)

    def __call__(self, case: Case) -> str | None:
        self._file.write_bytes(case.toml)
        try:
            params = Params.load(self._file).overridden(case.assignments)
        except ConfigError as error:
            return None if str(error) else "an error without a word"
        told = json.loads(json.dumps(params.to_dict(), allow_nan=False))
        if Params().updated(told) != params:
            return "the settings do not come back from their record"
        return self._compute(params) if case.compute else None

    def _compute(self, params: Params) -> str | None:
        segmenter_of: Any = sys.modules.get("aaams_stream.core.segmenter")
        if segmenter_of is None:
            from aaams_stream.core import segmenter as segmenter_of
        segmenter = segmenter_of.Segmenter(params)
        for rgb in self._frames:
            result = segmenter.step(rgb)
            if not result.ids.all() or result.segments["area"].sum() != result.ids.size:
                return f"ids {np.unique(result.ids)} of areas {result.segments['area']}"
        return None
