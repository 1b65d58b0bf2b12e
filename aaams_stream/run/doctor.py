"""What a bug report should say of a machine, and what on it cannot work.

Each part is found by itself: where one fails, the failure is what it tells.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# By the name to install and the name to import.
_NEEDED = {
    "numpy": "numpy",
    "numba": "numba",
    "opencv-python": "cv2",
    "av": "av",
    "zarr": "zarr",
    "google-crc32c": "google_crc32c",
    "websockets": "websockets",
}
_OPTIONAL = ("matplotlib", "pyarrow", "pandas", "polars", "rerun-sdk", "supervision", "napari")
_OPENCV = tuple(
    f"opencv{kind}-python{end}" for kind in ("", "-contrib") for end in ("", "-headless")
)
_VARIABLES = ("AAAMS_", "NUMBA_", "OMP_", "OPENCV_", "DISPLAY", "WAYLAND_DISPLAY")


def examine(package_version: str) -> tuple[dict[str, Any], list[str]]:
    """Return facts by subject, and what is wrong, a line each with its remedy."""
    troubles: list[str] = []
    parts: dict[str, Callable[[], Any]] = {
        "aaams_stream": lambda: package_version,
        "python": lambda: f"{platform.python_version()} ({_home(sys.executable)})",
        "system": lambda: f"{platform.platform()}, {platform.machine()}",
        "libraries": lambda: _libraries(troubles),
        "extras": _extras,
        "threads": _threads,
        "cameras": _cameras,
        "codecs": _codecs,
        "kernels": lambda: _kernels(troubles),
        "variables": _variables,
    }
    facts = {}
    for name, part in parts.items():
        try:
            facts[name] = part()
        except Exception as error:  # whatever it is, it is what the report is about
            facts[name] = told = f"failed ({type(error).__name__}: {error})"
            troubles.append(f"{name}: {told}")
    return facts, troubles


def _libraries(troubles: list[str]) -> dict[str, str]:
    found = {}
    for package, module in _NEEDED.items():
        found[package] = _version(package)
        try:
            importlib.import_module(module)
        except Exception as error:
            found[package] += f", does not load ({type(error).__name__}: {error})"
            troubles.append(f"{package} does not load: {error}")
    wheels = [name for name in _OPENCV if _version(name) != "missing"]
    if len(wheels) > 1:
        troubles.append(
            f"{' and '.join(wheels)} are both installed and write over each other; uninstall all "
            "of them, then install opencv-python"
        )
    elif wheels:
        found["opencv-python"] = found["opencv-python"].replace("missing", f"{wheels[0]} instead")
    return found


def _extras() -> dict[str, str]:
    return {name: _version(name) for name in _OPTIONAL if _version(name) != "missing"}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _threads() -> str:
    from aaams_stream.core.threads import thread_count

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{thread_count()} compute, {allowed} cores may be used of {os.cpu_count()}"


def _cameras() -> list[str]:
    from aaams_stream.source.equipment import cameras

    return cameras()


def _codecs() -> dict[str, Any]:
    from aaams_stream.source.equipment import codecs, ffmpeg_version

    return {"libavcodec": ffmpeg_version(), **codecs()}


def _kernels(troubles: list[str]) -> dict[str, str]:
    from aaams_stream.jit import stream_is_compiled
    from aaams_stream.kernels import CACHE_FOLDER

    folder = CACHE_FOLDER
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    place = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(place).free
    if not os.access(place, os.W_OK):
        troubles.append(
            f"{folder}: compiled code cannot be kept here, so every run compiles for minutes; name "
            "another folder with NUMBA_CACHE_DIR"
        )
    return {
        "compiled": "yes" if stream_is_compiled() else "not yet: the first run does, or warmup",
        "cache": f"{_home(folder)}, {size / 1e6:.0f} MB, {free / 1e9:.1f} GB free",
    }


def _variables() -> dict[str, str]:
    return {
        name: _home(value)
        for name, value in sorted(os.environ.items())
        if name.startswith(_VARIABLES)
    }


def _home(path: str | Path) -> str:
    """Return a path without the name of the user."""
    return str(path).replace(str(Path.home()), "~") if Path.home() != Path("/") else str(path)
