"""Who may import whom, what an import costs, and that settings are written down once."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
import pytest
from support import ROOT

from aaams_stream.params import Params

PACKAGE = ROOT / "aaams_stream"

# The storeys of the house, from the ground up. A file imports what lies below it, or its own room.
STOREYS = (
    {"errors"},
    {"paths"},
    {"model", "params"},
    {"kernels"},
    {"files", "jit"},
    {"core", "points"},
    {"source", "store", "draw", "export", "objects", "metrics"},
    {"run"},
    {"live", "cluster"},
    {"cli"},
    {"", "__main__"},  # the public names, and the door of `python -m`
)
HEIGHTS = {room: height for height, rooms in enumerate(STOREYS) for room in rooms}

# Third-party libraries and the places that know them. The standard library and numpy are open to
# all; a library that is not listed belongs nowhere.
OWNERS = {
    "numba": {"kernels", "jit"},
    "llvmlite": {"jit"},  # by which numba compiles
    "cv2": {"core/features", "files", "source/images", "draw", "live"},
    "av": {"source", "draw"},
    "zarr": {"store", "export/geff"},
    "google_crc32c": {"store"},  # which zarr brings along for its own checksums
    "numcodecs": {"store"},  # likewise for what compresses
    "dask": {"cluster"},
    "distributed": {"cluster"},
    "obstore": {"paths", "store/bucket"},  # the extra `remote`
    "websockets": {"live"},
    "matplotlib": {"draw"},
    "sklearn": {"points"},  # in `__sklearn_tags__` alone, which only scikit-learn calls
}

# Rooms that compute: they know no file, no codec and no thread. They may name a path (pathlib):
# settings can be given as one.
ALGORITHM = {"kernels", "core", "points", "objects", "metrics"}
WORLD = {
    "asyncio",
    "concurrent",
    "glob",
    "io",
    "multiprocessing",
    "os",
    "queue",
    "shutil",
    "signal",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
}
# Where compiled code is kept is settled before the first kernel is defined. The numbers of threads
# belong to the whole process, and whoever changes one for a while must hold a lock.
EXCEPTIONS = {
    Path("kernels", "__init__.py"): {"os", "tempfile"},
    Path("core", "threads.py"): {"os", "concurrent"},
}

HEAVY = {"numba", "cv2", "av", "zarr", "obstore", "matplotlib", "sklearn", "skimage"}

SOURCES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))
CONFIGS = sorted((ROOT / "configs").glob("*.toml"))
KERNELS = [path for path in SOURCES if path.parts[0] == "kernels" and path.stem != "__init__"]


def room_of(path: Path) -> str:
    """Return the room a file belongs to: its folder or its name; "" is the package itself."""
    return "" if path == Path("__init__.py") else path.parts[0].removesuffix(".py")


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all parts of a file, without what is imported for its types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from statements(child)


def imported(path: Path) -> Iterator[str]:
    """Yield the full name of everything a file imports, wherever in the file it does."""
    package = ("aaams_stream", *path.parent.parts)
    for node in statements(ast.parse((PACKAGE / path).read_text(encoding="utf-8"))):
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
    found = {parts[1] if len(parts) > 1 else "" for parts in names if parts[0] == "aaams_stream"}
    return {room if room in HEIGHTS else "" for room in found}


def test_every_room_has_its_storey():
    assert {room_of(path) for path in SOURCES} <= set(HEIGHTS)


def test_the_root_holds_few_files():
    files = [path for path in PACKAGE.iterdir() if path.is_file() and path.name != "py.typed"]
    assert len(files) <= 8, sorted(path.name for path in files)


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_files_stay_short_enough_to_have_one_subject(path):
    lines = len((PACKAGE / path).read_text(encoding="utf-8").splitlines())
    assert lines <= (550 if room_of(path) == "kernels" else 450)


# Signatures that are promised to users: scikit-learn's conventions, and what others script against.
PROMISED = {("points/estimator.py", "__init__"), ("cluster/door.py", "segment_video")}


@pytest.mark.parametrize("path", [p for p in SOURCES if room_of(p) != "kernels"], ids=str)
def test_functions_take_few_parameters(path):
    for node in ast.walk(ast.parse((PACKAGE / path).read_text(encoding="utf-8"))):
        if not isinstance(node, ast.FunctionDef) or (path.as_posix(), node.name) in PROMISED:
            continue
        names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
        given = [name for name in names if name not in ("self", "cls")]
        assert len(given) <= 8, f"{node.name} takes {len(given)}: make a record"


def test_the_map_names_files_that_are_there():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(
        re.findall(r"`((?:core|source|store|draw|run|live|cli|export|objects)/\w+\.py)`", text)
    )
    assert len(named) > 30
    assert [name for name in sorted(named) if not (PACKAGE / name).exists()] == []
    core = {path.as_posix() for path in SOURCES if path.parts[0] == "core"}
    assert len({name for name in named if name.startswith("core/")} & core) > 15


@pytest.mark.parametrize("path", [p for p in SOURCES if room_of(p) == "core"], ids=str)
def test_core_calls_kernels_through_their_module(path):
    # Compiling is shared out by what a stream calls, which is noted in the kernels' modules: a
    # kernel that is imported by its name goes unnoticed, and all are compiled by one process.
    names = [name for name in imported(path) if name.startswith("aaams_stream.kernels.")]
    called = [n for n in names if n.count(".") == 3 and n.rpartition(".")[2].islower()]
    assert called == []


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_imports_go_down_the_storeys(path):
    room = room_of(path)
    others = ours(path) - {room}
    wrong = {other for other in others if HEIGHTS[other] >= HEIGHTS[room]}
    # the version stands in the package's own file, which imports nothing
    if wrong == {""} and set(imported(path)) & {"aaams_stream.__version__"}:
        wrong = set()
    assert not wrong, f"{path} may not import from {sorted(wrong)}"


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_libraries_stay_in_the_rooms_that_own_them(path):
    tops = {name.split(".")[0] for name in imported(path)}
    places = {room_of(path), path.with_suffix("").as_posix()}
    strangers = {
        name
        for name in tops - sys.stdlib_module_names - {"aaams_stream", "numpy"}
        if not places & OWNERS.get(name, set())
    }
    assert not strangers, f"{path} may not import {sorted(strangers)}"


@pytest.mark.parametrize("path", KERNELS, ids=str)
def test_kernels_know_only_numba_and_numpy(path):
    for name in imported(path):
        top = name.split(".")[0]
        shared = name.startswith(("aaams_stream.kernels.common", "aaams_stream.kernels.records"))
        assert shared or top in {"__future__", "math", "numpy", "numba", "typing"}


def record_classes(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Return the fields of every NamedTuple by its name, without those that arrays have too."""
    fields: dict[str, set[str]] = {}
    for node in (part for tree in trees for part in tree.body):
        if isinstance(node, ast.ClassDef) and "NamedTuple" in map(ast.unparse, node.bases):
            own = {part.target.id for part in node.body if is_field(part)}
            fields.setdefault(node.name, set()).update(own - set(dir(np.ndarray)))
    return fields


def is_field(part: ast.AST) -> TypeGuard[Any]:
    return isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)


def is_prange(node: ast.AST) -> TypeGuard[ast.For]:
    call = node.iter if isinstance(node, ast.For) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) in {"prange", "numba.prange"}


def outside_prange(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all parts of a function but for the bodies of its parallel loops."""
    for child in [node.iter] if is_prange(node) else ast.iter_child_nodes(node):
        yield child
        yield from outside_prange(child)


def parameters(kernel: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in kernel.args.args]


def records_of(
    kernel: ast.FunctionDef, classes: dict[str, set[str]], taking: dict[str, set[int]]
) -> set[str]:
    """Return the names of a kernel that hold records when a parallel loop begins.

    A parameter is one if a field of it is read, if it is taken apart, or if it is passed on as a
    parameter that is one; taking: which of their parameters are records, for the kernels that this
    one can call. So is what is put together outside of the loops, and another name of one.
    """
    fields = set().union(*classes.values())
    taken = set(parameters(kernel))
    found: set[str] = set()
    for node in ast.walk(kernel):
        read = isinstance(node, ast.Attribute) and node.attr in fields
        if read or (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)):
            found |= {ast.unparse(node.value)} & taken
        elif isinstance(node, ast.Call):
            for place in taking.get(ast.unparse(node.func), ()):
                found |= {ast.unparse(argument) for argument in node.args[place:][:1]} & taken
    for node in outside_prange(kernel):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = node.value
            built = isinstance(value, ast.Call) and ast.unparse(value.func) in classes
            if built or ast.unparse(value) in found:
                found.add(node.targets[0].id)
    return found


def records_in_parallel_loops(sources: Mapping[str, str]) -> list[str]:
    """Return where parallel loops name a record that was there before them: kernel and name.

    sources: the text of the files by their names; a kernel calls those of its own and of `common`.
    """
    trees = {file: ast.parse(source) for file, source in sources.items()}
    classes = record_classes(trees.values())
    kernels = [
        (file, part)
        for file, tree in trees.items()
        for part in tree.body
        if isinstance(part, ast.FunctionDef)
    ]
    taking: dict[str, dict[str, set[int]]] = {}
    while True:  # until no kernel passes a record to one that was not known to take it
        shared = taking.get("common", {})
        found = [records_of(part, classes, shared | taking.get(file, {})) for file, part in kernels]
        before, taking = taking, {}
        for (file, kernel), records in zip(kernels, found, strict=True):
            places = {p for p, name in enumerate(parameters(kernel)) if name in records}
            taking.setdefault(file, {})[kernel.name] = places
        if taking == before:
            break
    return [
        f"{file}.{kernel.name}: {node.id}"
        for (file, kernel), records in zip(kernels, found, strict=True)
        for loop in filter(is_prange, ast.walk(kernel))
        for part in loop.body
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and node.id in records
    ]


def test_parallel_loops_name_no_record():
    """Inside `prange` numba may lose what is written through a NamedTuple, and does not say so.

    The body of such a loop becomes a function of its own, to which arrays are passed as they are,
    but a tuple is taken apart and put together again. So kernels take records apart before the
    loop, and what must go on to another kernel is put together inside. What a loop runs over
    (`prange(record.field.size)`) is found before, and may name one.
    """
    sources = {path.stem: (PACKAGE / path).read_text(encoding="utf-8") for path in KERNELS}
    assert record_classes(map(ast.parse, sources.values()))
    assert records_in_parallel_loops(sources) == []


RECORDS = """
class Pair(NamedTuple):
    left: Any
    right: Any

def helper(pair, i):
    pair.left[i] = pair.right[i]

def further(i, both):
    helper(both, i)

"""


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (["for i in prange(n):", "    pair.left[i] = 0"], "pair"),
        (["for i in prange(n):", "    helper(pair, i)"], "pair"),
        (["for i in prange(n):", "    further(i, pair)"], "pair"),
        (["for i in prange(n):", "    for j in range(i):", "        n[j] = pair.left[j]"], "pair"),
        (["helper(pair, 0)", "own = pair", "for i in prange(n):", "    own.left[i] = 0"], "own"),
        (["own = Pair(n, n)", "for i in prange(n):", "    own.left[i] = 0"], "own"),
        (["left, right = pair", "for i in prange(n):", "    left[i] = pair[1]"], "pair"),
        (["left = pair.left", "for i in prange(left.size):", "    left[i] = n.size"], ""),
        (["for i in prange(pair.left.size):", "    n[i] = 0"], ""),
        (["for i in range(n):", "    pair.left[i] = 0"], ""),
        (["a, b = pair", "for i in prange(n):", "    own = Pair(a, b)", "    helper(own, i)"], ""),
    ],
)
def test_the_search_for_records_in_parallel_loops_finds_them(lines, wrong):
    kernel = "\n    ".join(["def kernel(pair, n):", *lines])
    expected = [f"file.kernel: {wrong}"] if wrong else []
    assert records_in_parallel_loops({"file": RECORDS + kernel}) == expected
    # the same where what it calls stands in the file that all share
    assert records_in_parallel_loops({"common": RECORDS, "file": kernel}) == expected


@pytest.mark.parametrize("path", [p for p in SOURCES if room_of(p) in ALGORITHM], ids=str)
def test_the_algorithm_knows_no_file_and_no_thread(path):
    tops = {name.split(".")[0] for name in imported(path)}
    assert not (tops & WORLD) - EXCEPTIONS.get(path, set())


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_nothing_imports_the_scripts_that_use_the_package(path):
    tops = {name.split(".")[0] for name in imported(path)}
    assert not tops & {"pipelines", "benchmarks", "tests", "support"}


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
