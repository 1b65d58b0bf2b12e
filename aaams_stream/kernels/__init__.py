"""All compiled loops, one file for each file that calls them, and what they share.

Numba's cache notices an edit to the file of a kernel, but not one to a helper that the kernel calls
in another file. So compiled code is kept in a folder named after the text of all kernels: an edit
anywhere compiles them anew, and kernels may share the helpers of `common.py`. A shared helper goes
without `cache=True`: it is compiled into every kernel that calls it, and two processes that compile
at a time would mix up the entries of its index.

Every file is imported here, while numba is told of that folder, so that no import can miss it.
Whoever compiles kernels of his own keeps them where he did before.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numba

from aaams_stream.errors import SinkError

_HERE = Path(__file__).parent
CACHE_PREFIX = "aaams-stream-"  # of the folders in which compiled code is kept; a digest follows


def _digest() -> str:
    """Return what stands for the text of all kernels and for the compiler."""
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(_HERE.glob("*.py")):
        text = source.read_bytes()
        digest.update(f"\n{source.name} {len(text)}\n".encode())
        digest.update(text)
    return digest.hexdigest()[:12]  # short: Windows has a limit for paths


def _find_folder() -> Path:
    """Return a folder for compiled code, the first that can be written; made if need be."""
    name = CACHE_PREFIX + _digest()
    for place in _PLACES:
        try:
            folder = place().absolute() / name
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
            os.utime(folder)  # tells when it was last used: see `jit.sweep`
        except (OSError, KeyError, RuntimeError):  # not there, not ours to write, or no home
            continue
        return folder
    raise SinkError("no folder for compiled code can be written; name one in NUMBA_CACHE_DIR")


def _named_folder() -> Path:
    """Return the folder that the user told numba to use."""
    named: str = numba.config.CACHE_DIR  # type: ignore[attr-defined]
    if not named:
        raise FileNotFoundError("none is named")
    return Path(named)


def _user_folder() -> Path:
    """Return where this system keeps what programs of a user may lose."""
    if sys.platform == "win32":
        return Path(os.environ["LOCALAPPDATA"], "aaams-stream")
    if sys.platform == "darwin":
        return Path("~/Library/Caches/aaams-stream").expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "aaams-stream"


def _private_folder() -> Path:
    """Return a folder that only this user can write to: cached code is code that will run."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir(), f"aaams-stream-numba-{user}")
    try:
        folder.mkdir(0o700)
    except FileExistsError:
        found = folder.lstat()
        shared = hasattr(os, "getuid") and (found.st_uid != user or found.st_mode & 0o077)
        if not stat.S_ISDIR(found.st_mode) or shared:
            return Path(tempfile.mkdtemp(prefix="aaams-stream-numba-"))
    return folder


# Where compiled code may be kept, the best place first; some containers leave nothing but the last.
_PLACES = (_named_folder, lambda: _HERE / "__pycache__", _user_folder, _private_folder)


@contextmanager
def _cached_in(folder: Path) -> Iterator[None]:
    """Have numba keep the code of what is defined meanwhile in `folder`."""
    config = numba.config
    before = config.CACHE_DIR  # type: ignore[attr-defined]
    config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        config.CACHE_DIR = before  # type: ignore[attr-defined]


# By default OpenMP's threads, on which points are fitted, spin between loops; on two busy cores
# that took ten times the processor time.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

CACHE_FOLDER = _find_folder()
with _cached_in(CACHE_FOLDER):
    for _file in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{_file.name}")
