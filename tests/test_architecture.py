"""Who may import whom, what an import costs, and that settings are written down once."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from aaams_stream.params import Params

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "aaams_stream"

# Third-party libraries and the rooms that know them. The standard library and numpy are open to
# all; a library that is not listed belongs nowhere.
OWNERS = {
    "numba": {"kernels", "compiling"},
    "cv2": {"features", "pictures", "render", "preview"},
    "av": {"source", "render"},
    "zarr": {"store"},
    "matplotlib": {"plot"},
    "sklearn": {"points"},  # in `__sklearn_tags__` alone, which only scikit-learn calls
}

# What a room may know of ours, beyond errors, model, params and kernels.
FRIENDS = {
    "image": {"climb", "compiling", "features", "hierarchy"},
    "compiling": {"demo", "segmenter"},  # in the processes it starts, which run a stream
    "hierarchy": {"climb"},
    "preview": {"live", "pictures", "render"},
    "source": {"demo"},
    "describe": {"climb", "state"},
    "motion": {"enlarge", "features"},
    "parting": {"identity"},
    "seeking": {"state"},
    "state": {"features", "identity"},
    "store": {"lineage", "pooling"},
    "export": {"pooling"},
    "following": {"features", "pooling"},
    "segmenter": {
        *("climb", "compiling", "describe", "enlarge", "features", "hierarchy", "identity"),
        *("image", "motion", "parting", "seeking", "state"),
    },
}

# Rooms that compute: they know no file, no codec and no thread. They may name a path (pathlib):
# settings can be given as one.
ALGORITHM = {
    "points",
    "climb",
    "describe",
    "enlarge",
    "following",
    "hierarchy",
    "image",
    "lineage",
    "motion",
    "parting",
    "pooling",
    "seeking",
    "segmenter",
    "state",
    "identity",
    "metrics",
    "kernels",
}
WORLD = {
    "asyncio",
    "concurrent",
    "glob",
    "io",
    "multiprocessing",
    "os",
    "queue",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
}

FOUNDATIONS = {"errors": set(), "model": set(), "params": {"errors"}, "kernels": set()}
WIRING = {"", "__main__", "cli", "live", "pipeline"}

HEAVY = {"numba", "cv2", "av", "zarr", "matplotlib", "sklearn", "skimage"}

SOURCES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
CONFIGS = sorted((ROOT / "configs").glob("*.toml"))


def room_of(path: Path) -> str:
    """Return the room a file belongs to: its folder or its name; "" is the package itself."""
    return "" if path == Path("__init__.py") else path.parts[0].removesuffix(".py")


# Settles where compiled code is kept, and so knows of folders; it holds no kernel.
CACHE = Path("kernels", "__init__.py")
KERNELS = [path for path in SOURCES if room_of(path) == "kernels" and path != CACHE]


def imported(path: Path) -> Iterator[str]:
    """Yield the full name of everything a file imports, wherever in the file it does."""
    package = ("aaams_stream", *path.parent.parts)
    for node in ast.walk(ast.parse((PACKAGE / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *(node.module or "").split("."))).strip(".")
            # `from aaams_stream import x` may mean the module x.
            yield from (f"{module}.{alias.name}" for alias in node.names)


def ours(path: Path) -> set[str]:
    """Return the rooms of this package that a file imports from."""
    names = (name.split(".") for name in imported(path))
    rooms = {parts[1] for parts in names if parts[0] == "aaams_stream" and len(parts) > 1}
    return rooms & {room_of(source) for source in SOURCES}


def third_party(path: Path) -> set[str]:
    tops = {name.split(".")[0] for name in imported(path)}
    return tops - sys.stdlib_module_names - {"aaams_stream", "numpy"}


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_libraries_stay_in_the_rooms_that_own_them(path):
    strangers = {name for name in third_party(path) if room_of(path) not in OWNERS.get(name, set())}
    assert not strangers, f"{path} may not import {sorted(strangers)}"


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_rooms_do_not_reach_into_each_other(path):
    room = room_of(path)
    if room in WIRING:
        return
    allowed = FOUNDATIONS.get(room, set(FOUNDATIONS) | FRIENDS.get(room, set())) | {room}
    if room == "kernels":
        allowed = set()  # each file alone: see below
    assert ours(path) <= allowed, f"{path} may import {sorted(allowed)}"


@pytest.mark.parametrize("path", KERNELS, ids=str)
def test_kernels_know_only_numba_and_numpy(path):
    """A kernel that called one of another file would run stale from numba's cache."""
    tops = {name.split(".")[0] for name in imported(path)}
    assert tops <= {"__future__", "math", "numpy", "numba"}


@pytest.mark.parametrize("path", [p for p in SOURCES if room_of(p) in ALGORITHM], ids=str)
def test_the_algorithm_knows_no_file_and_no_thread(path):
    if path != CACHE:
        tops = {name.split(".")[0] for name in imported(path)}
        assert not tops & WORLD


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_nothing_imports_the_scripts_that_use_the_package(path):
    tops = {name.split(".")[0] for name in imported(path)}
    assert not tops & {"pipelines", "benchmarks", "tests", "synthetic", "reference"}


@pytest.mark.parametrize("module", ["aaams_stream", "aaams_stream.cli"])
def test_importing_loads_nothing_heavy(module):
    code = f"import sys, {module}; print(*sorted(sys.modules.keys() & {HEAVY!r}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []


def test_every_public_name_resolves():
    import aaams_stream

    assert [name for name in aaams_stream.__all__ if not hasattr(aaams_stream, name)] == []
    assert set(aaams_stream.__all__) <= set(dir(aaams_stream))


def test_the_default_configuration_repeats_every_default():
    tables = tomllib.loads((ROOT / "configs" / "default.toml").read_text(encoding="utf-8"))
    assert tables == Params().to_dict()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_shipped_configurations_load(path):
    Params.load(path)
