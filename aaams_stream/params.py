"""Every setting, its default and its range; TOML in, errors that name the key.

`configs/default.toml` repeats these defaults with a comment each; a test keeps the two equal.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from aaams_stream.errors import ConfigError
from aaams_stream.paths import expanded, kind_of

CRITERIA = ("bhattacharyya", "size-aware")
FLOWS = ("fine", "fast")
LEAST_SCALE = 0.05


def _require(condition: bool, key: str, expected: str, value: object) -> None:
    if not condition:
        raise ConfigError(f"{key} must be {expected}, got {value!r}")


def _require_count(least: int, key: str, value: int) -> None:
    _require(least <= value < 2**31, key, f">= {least} and below 2**31", value)  # as kernels count


def _require_word(key: str, words: tuple[str, ...], value: str) -> None:
    _require(value in words, key, " or ".join(f'"{word}"' for word in words), value)


@dataclass(frozen=True, slots=True)
class DomainParams:
    """Detail and vicinity of one feature domain, both squared as the paper prints them.

    Attributes:
        sigma2: the squared base bandwidth σ²: the least detail wanted.
        epsilon2: the squared vicinity ε² within which clusters may merge.
    """

    sigma2: float
    epsilon2: float

    def check(self, table: str) -> None:
        """Raise a ConfigError that names `table` where a value is out of range."""
        # Beyond these, float32 overflows or a window holds more than any picture.
        _require(0.01 <= self.sigma2 <= 1e4, f"{table}.sigma2", "in 0.01..10000", self.sigma2)
        _require(0 <= self.epsilon2 <= 1e8, f"{table}.epsilon2", "in 0..1e8", self.epsilon2)


@dataclass(frozen=True, slots=True)
class CoreParams:
    """When Alg. 1 stops.

    Attributes:
        delta: a cluster has converged when its shift is at most this (feature units).
        max_iterations: the end in any case.
        min_merge_share: stop once an iteration merges less than this share of the clusters left,
            for callers who want the partition alone; 0 runs every cluster to convergence.
    """

    delta: float = 0.01
    max_iterations: int = 100
    min_merge_share: float = 0.05

    def check(self, table: str) -> None:
        """Raise a ConfigError that names `table` where a value is out of range."""
        _require(0 < self.delta <= 1e6, f"{table}.delta", "> 0 and <= 1e6", self.delta)
        _require_count(1, f"{table}.max_iterations", self.max_iterations)
        _require(
            0 <= self.min_merge_share < 1,
            f"{table}.min_merge_share",
            "in [0, 1)",
            self.min_merge_share,
        )


@dataclass(frozen=True, slots=True)
class PostParams:
    """Alg. 2: what becomes of the clusters.

    Attributes:
        min_size: segments of fewer pixels join their closest neighbour; where more than 290 a frame
            are wanted of a stream, those that are there already may shrink further.
        criterion: "bhattacharyya", the paper's plain d_B over colour, cut at `bhattacharyya`;
            "size-aware", ours, cut at `level`.
        bhattacharyya: merge adjacent segments below this by the one; 0 switches merging off.
        level: the same by the other.
    """

    min_size: int = 10
    criterion: str = "size-aware"
    bhattacharyya: float = 1.0
    level: float = 1.0

    def check(self, table: str) -> None:
        """Raise a ConfigError that names `table` where a value is out of range."""
        _require_count(1, f"{table}.min_size", self.min_size)
        _require_word(f"{table}.criterion", CRITERIA, self.criterion)
        _require(self.bhattacharyya >= 0, f"{table}.bhattacharyya", ">= 0", self.bhattacharyya)
        _require(self.level >= 0, f"{table}.level", ">= 0", self.level)

    @property
    def threshold(self) -> float:
        """The merge level at which the chosen criterion is cut."""
        return self.bhattacharyya if self.criterion == "bhattacharyya" else self.level


@dataclass(frozen=True, slots=True)
class StreamParams:
    """How identities are propagated from frame to frame.

    Attributes:
        segments: how many segments a frame should have, roughly; 0 cuts at `post.level` instead.
        tolerance2: the squared colour distance up to which a pixel is the one it was before.
        refresh: in so many frames every segment is re-estimated once.
        flow: how finely motion is sought: "fine", at half the resolution; "fast", at a quarter.
        scale: frames are segmented at this share of their width and height.
    """

    segments: int = 290
    tolerance2: float = 9.0
    refresh: int = 192
    flow: str = "fine"
    scale: float = 0.75

    def check(self, table: str) -> None:
        """Raise a ConfigError that names `table` where a value is out of range."""
        _require_count(0, f"{table}.segments", self.segments)
        _require(self.tolerance2 >= 0, f"{table}.tolerance2", ">= 0", self.tolerance2)
        _require_count(1, f"{table}.refresh", self.refresh)
        _require_word(f"{table}.flow", FLOWS, self.flow)
        least = LEAST_SCALE
        _require(least <= self.scale <= 1, f"{table}.scale", f"in {least}..1", self.scale)


@dataclass(frozen=True, slots=True)
class Params:
    """All settings of a segmentation, one table per room.

    In time, sigma2 tells how fast trajectories fade and epsilon2 for how long a lost identity may
    come back; both in squared frames.

    Attributes:
        colour: detail and vicinity in L*a*b* units.
        space: the same in pixels.
        time: the same in frames.
        core: when the climb stops.
        post: from clusters to segments.
        stream: how identities are propagated from frame to frame.

    Raises:
        ConfigError: a value is out of range; the text names its key.

    Example:
        >>> from aaams_stream import Params
        >>> Params().overridden(["stream.segments=100"]).stream.segments
        100
        >>> Params.load("realtime").stream.scale
        0.5
    """

    colour: DomainParams = field(default_factory=lambda: DomainParams(10.0, 4.0))
    space: DomainParams = field(default_factory=lambda: DomainParams(15.0, 16.0))
    time: DomainParams = field(default_factory=lambda: DomainParams(16.0, 900.0))
    core: CoreParams = field(default_factory=CoreParams)
    post: PostParams = field(default_factory=PostParams)
    stream: StreamParams = field(default_factory=StreamParams)

    def __post_init__(self) -> None:
        for table in dataclasses.fields(self):
            getattr(self, table.name).check(table.name)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a TOML file; keys it leaves out keep their defaults.

        Args:
            path: the file, or a bare name such as "realtime": one of the sets that come with the
                package.

        Returns:
            The settings.

        Raises:
            ConfigError: there is no such file or set, or it has an unknown key or a bad value.
        """
        path = expanded(path)
        if not path.suffix and not path.exists():
            if str(path) not in (sets := shipped()):
                raise ConfigError(
                    f"{path}: no such configuration; expected a TOML file or one of "
                    f"{', '.join(sets)}"
                )
            path = sets[str(path)]
        try:
            tables = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(
                f"{path}: cannot read the configuration ({error.strerror})"
            ) from error
        except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
            raise ConfigError(f"{path}: not valid TOML ({error})") from error
        try:
            return cls().updated(tables)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    def updated(self, tables: Mapping[str, Any]) -> Self:
        """Return a copy with the keys of `tables` (table → key → value) replaced.

        Raises:
            ConfigError: a key is unknown, or its value out of range.
        """
        if not isinstance(tables, Mapping):
            raise ConfigError(f"expected tables of settings, got {kind_of(tables)}")
        changed = {}
        for table, values in tables.items():
            if table not in _names(self):
                raise ConfigError(f"unknown table {table!r}{_nearest(table, _names(self))}")
            if not isinstance(values, Mapping):
                raise ConfigError(f"{table} must be a table of keys, got {values!r}")
            changed[table] = _updated_table(table, getattr(self, table), values)
        return dataclasses.replace(self, **changed)

    def overridden(self, assignments: Iterable[str]) -> Self:
        """Return a copy with `table.key=value` texts applied, values written as in TOML.

        Raises:
            ConfigError: a key is unknown, or its value out of range.
        """
        params = self
        for text in assignments:
            if not isinstance(text, str):
                raise ConfigError(f"expected table.key=value, got {kind_of(text)}")
            name, equals, value = text.partition("=")
            table, dot, key = name.strip().partition(".")
            if not (equals and dot and key):
                raise ConfigError(f"expected table.key=value, got {text!r}")
            try:
                parsed = tomllib.loads(f"value = {value}")["value"]
            except (ValueError, RecursionError):
                parsed = value.strip()  # a bare word is a string
            params = params.updated({table: {key: parsed}})
        return params

    def to_dict(self) -> dict[str, dict[str, float | int | str]]:
        """Return the settings as plain tables, for metadata and reports."""
        return dataclasses.asdict(self)


def shipped() -> dict[str, Path]:
    """Return the sets of settings that come with the package, by name."""
    here = Path(__file__).parent
    # installed, they lie inside the package; in a checkout beside it
    folder = next((f for f in (here / "configs", here.parent / "configs") if f.is_dir()), here)
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


def resolve(params: Params | str | Path | None) -> Params:
    """Return `params` itself, the file it names, or the defaults."""
    if params is None:
        return Params()
    if isinstance(params, Params):
        return params
    if not isinstance(params, str | os.PathLike):
        raise ConfigError(
            f"params must be a Params or the name of a TOML file, got {kind_of(params)}; "
            "Params().updated({...}) takes tables"
        )
    return Params.load(params)


def _names(record: Any) -> list[str]:
    return [entry.name for entry in dataclasses.fields(record)]


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
    return f"; the nearest known is {close[0]!r}" if close else ""


def _updated_table(table: str, record: Any, values: Mapping[str, Any]) -> Any:
    known = _names(record)
    for key, value in values.items():
        if key not in known:
            nearest = difflib.get_close_matches(key, known, n=1, cutoff=0.0)[0]
            raise ConfigError(f"unknown key {table}.{key}; the nearest known is {table}.{nearest}")
        values = {**values, key: _cast(f"{table}.{key}", value, type(getattr(record, key)))}
    updated = dataclasses.replace(record, **values)
    updated.check(table)
    return updated


def _cast(key: str, value: Any, kind: type) -> Any:
    """Accept an int where a float is wanted, and nothing else that differs."""
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not abs(value) <= sys.float_info.max:
            raise ConfigError(f"{key} must be finite, got {value!r}")
        return float(value)
    if type(value) is not kind:
        raise ConfigError(f"{key} must be of type {kind.__name__}, got {value!r}")
    return value
