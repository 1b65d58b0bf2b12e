"""The arguments of a fit, checked, and the words for what is wrong with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Protocol

import numpy as np

from aaams_stream.errors import ConfigError
from aaams_stream.kernels.points import Domains, Flags, Floats, Ints

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

MergeCheck = Callable[[Floats, Floats, Floats, Floats, Floats, Floats], Flags]

CHECKS = {"bearing": 0, "proximity": 1}


class Arguments(Protocol):
    """What `AAAMS` was constructed with."""

    bandwidth: float | Sequence[float]
    epsilon: float | Sequence[float]
    domains: Sequence[int] | None
    truncation: float
    xi: float
    switch: str
    ess_min: float
    merge_check: str | MergeCheck
    delta: float
    max_iter: int
    patience: int | None
    perturbations: int
    min_size: float
    bhattacharyya: float
    connect: float | None
    n_clusters: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The checked arguments of one fit, per axis where a domain has its own."""

    scale: Floats  # (d,) σ_base
    epsilon: Floats  # (d,) in σ
    domains: Domains
    runs: tuple[slice, ...]  # the axes of each domain
    truncation: float
    xi: float
    by_members: bool
    enough: float  # ESS or members
    merge_check: str | MergeCheck
    delta: float
    max_iter: int
    patience: int | None
    perturbations: int
    min_size: float
    bhattacharyya: float
    connect: float | None
    n_clusters: int | None

    @classmethod
    def of(cls, model: Arguments, dims: int) -> Plan:
        """Check every argument of `model` against data of `dims` columns."""
        sizes = _check_domains(model.domains, dims)
        scale = _per_axis("bandwidth", model.bandwidth, sizes, above=0.0, strict=True)
        epsilon = _per_axis("epsilon", model.epsilon, sizes, above=0.0, strict=False)
        stops = np.cumsum(sizes)
        if model.switch not in ("ess", "members"):
            raise ConfigError(f'switch must be "ess" or "members", got {model.switch!r}')
        if not callable(model.merge_check) and model.merge_check not in CHECKS:
            raise ConfigError(
                f'merge_check must be "bearing", "proximity" or a function, '
                f"got {model.merge_check!r}"
            )
        ess_min = _number("ess_min", model.ess_min, above=0.0)
        connect, wanted, patience = model.connect, model.n_clusters, model.patience
        return cls(
            scale=scale,
            epsilon=epsilon / scale,
            domains=Domains(np.repeat(stops - sizes, sizes), np.repeat(stops, sizes)),
            runs=tuple(slice(a, b) for a, b in zip(stops - sizes, stops, strict=True)),
            truncation=_number("truncation", model.truncation, above=0.0),
            xi=_number("xi", model.xi, above=0.0),
            by_members=model.switch == "members",
            enough=float(sizes.max() ** 2) if model.switch == "members" else ess_min,
            merge_check=model.merge_check,
            delta=_number("delta", model.delta, above=0.0),
            max_iter=_count("max_iter", model.max_iter, 1),
            patience=None if patience is None else _count("patience", patience, 1),
            perturbations=_count("perturbations", model.perturbations, 0),
            min_size=_number("min_size", model.min_size, above=0.0),
            bhattacharyya=_number("bhattacharyya", model.bhattacharyya, above=0.0, strict=False),
            connect=None if connect is None else _number("connect", connect, above=0.0),
            n_clusters=None if wanted is None else _count("n_clusters", wanted, 1),
        )


def check_points(X: ArrayLike) -> Floats:
    """Return X as float64 (n, d), or say what is wrong with it."""
    if hasattr(X, "toarray") and not isinstance(X, np.ndarray):
        raise ConfigError(f"X is sparse ({type(X).__name__}); pass a dense array, X.toarray()")
    array = np.asarray(X)
    if array.dtype.kind == "c":
        raise ConfigError(f"X: Complex data not supported, got {array.dtype}; pass real columns")
    try:
        points = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"X must hold numbers, got {array.dtype} ({error})") from error
    if points.ndim != 2:
        raise ConfigError(
            f"X must be 2-D (points, features), got shape {points.shape}. Reshape your data: "
            "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one point"
        )
    if points.shape[0] == 0:
        raise ConfigError(
            f"X has 0 sample(s) (shape={points.shape}) while a minimum of 1 is required."
        )
    if points.shape[1] == 0:
        raise ConfigError(
            f"X has 0 feature(s) (shape={points.shape}) while a minimum of 1 is required."
        )
    if not np.isfinite(points).all():
        i, a = np.argwhere(~np.isfinite(points))[0]
        raise ConfigError(
            f"X must be finite, got {'NaN' if np.isnan(points[i, a]) else 'inf'} at row {i}, "
            f"column {a}; drop or fill such points"
        )
    return points


def check_weights(sample_weight: ArrayLike | None, n: int) -> Floats:
    """Return sample_weight as float64 (n,), ones where there is none."""
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.asarray(sample_weight).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"sample_weight must hold numbers ({error})") from error
    if weights.shape != (n,):
        raise ConfigError(f"sample_weight must have shape ({n},), got {weights.shape}")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise ConfigError("sample_weight must be finite, >= 0 and not all zero")
    return weights


def _check_domains(domains: Sequence[int] | None, dims: int) -> Ints:
    if domains is None:
        return np.array([dims])
    sizes = list(domains)
    whole = all(isinstance(size, int | np.integer) and size >= 1 for size in sizes)
    if not whole or sum(sizes) != dims:
        raise ConfigError(
            f"domains must be sizes >= 1 that sum to the {dims} columns of X, got {domains!r}"
        )
    return np.array(sizes, np.int64)


def _per_axis(
    name: str, value: float | Sequence[float], sizes: Ints, above: float, strict: bool
) -> Floats:
    given = list(value) if isinstance(value, Iterable) and np.ndim(value) > 0 else [value]
    if len(given) != len(sizes):
        raise ConfigError(
            f"{name} must hold one value for each of {len(sizes)} domains, got {value!r}"
        )
    numbers = [_number(name, item, above=above, strict=strict) for item in given]
    return np.repeat(np.array(numbers), sizes)


def _number(name: str, value: object, *, above: float, strict: bool = True) -> float:
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if np.isfinite(number) and (number > above or (number == above and not strict)):
            return number
    raise ConfigError(f"{name} must be a number {'>' if strict else '>='} {above:g}, got {value!r}")


def _count(name: str, value: object, least: int) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise ConfigError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)
