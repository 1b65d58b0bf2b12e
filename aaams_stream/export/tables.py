"""Tables as Arrow, pandas, polars, Parquet and CSV: vectors become columns of their own."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream.errors import ConfigError
from aaams_stream.model import EventKind

TABLES = ("segments", "adjacency", "events", "tracks")
_LAB, _XY = ("L", "a", "b"), ("x", "y")
# What the parts of a vector are called.
_PARTS = {
    "mode": (*_LAB, *_XY),
    "bandwidth_colour": ("LL", "La", "Lb", "aa", "ab", "bb"),
    "bandwidth_space": ("xx", "xy", "yy"),
    "bbox": ("x0", "y0", "x1", "y1"),
    "centroid": _XY,
    "colour": _LAB,
    "colour_spread": _LAB,
    "motion": _XY,
    "start": _XY,
    "stop": _XY,
}


# Columns that hold an EventKind, in words: `birth`, `split` and so on; of an end, 0 is `alive`.
_KINDS = ("kind", "end")
_WORDS = np.array(["alive", *(kind.name.lower() for kind in EventKind)])


def columns(rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Return a structured array column by column.

    `bbox` becomes `bbox_x0` and so on; kinds of events become words.
    """
    flat: dict[str, NDArray[Any]] = {}
    for name in rows.dtype.names or ():
        if name in _KINDS:
            flat[name] = _WORDS[rows[name]]
        elif rows.dtype[name].shape:
            for part, values in zip(_PARTS[name], rows[name].T, strict=True):
                flat[f"{name}_{part}"] = np.ascontiguousarray(values)
        else:
            flat[name] = np.ascontiguousarray(rows[name])
    return flat


def as_arrow(rows: NDArray[Any]) -> Any:
    """Return a structured array as an Arrow table (extra `arrow`)."""
    arrow = needed("pyarrow", "arrow")
    return arrow.table(columns(rows))


def as_pandas(rows: NDArray[Any]) -> Any:
    """Return a structured array as a pandas data frame (extra `pandas`)."""
    return needed("pandas", "pandas").DataFrame(columns(rows))


def as_polars(rows: NDArray[Any]) -> Any:
    """Return a structured array as a polars data frame (extra `polars`)."""
    return needed("polars", "polars").DataFrame(columns(rows))


def needed(module: str, extra: str) -> Any:
    """Import a library that is optional; the error names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{module} is not installed; get it with pip install 'aaams-stream[{extra}]'"
        ) from error


def write_parquet(rows: NDArray[Any], path: Path) -> None:
    """Write a table as Parquet."""
    parquet = needed("pyarrow.parquet", "arrow")
    parquet.write_table(as_arrow(rows), path, compression="zstd")


def write_csv(rows: NDArray[Any], path: Path) -> None:
    """Write a table as CSV; numbers have all the digits it takes to read them back equal."""
    flat = columns(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(flat)
        # a whole column at a time: NumPy writes a float with as few digits as it needs
        writer.writerows(
            zip(*(values.astype(str).tolist() for values in flat.values()), strict=True)
        )
