"""Names of files and addresses as users give them; what is behind addresses is reached here."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aaams_stream.errors import ConfigError

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_AS_PATH = re.compile(r"(s3a?|gs|az|abfss?|https?):/")  # what a Path makes of an address


def is_address(name: object) -> bool:
    """Whether a name is an address, `scheme://…`, and not that of a file or folder here."""
    return isinstance(name, str) and _ADDRESS.match(name) is not None


def expanded(name: str | Path) -> Path:
    """Return a name as a path, with `~` written out; a ConfigError where nothing can have it."""
    if not isinstance(name, str | os.PathLike):
        raise ConfigError(f"expected the name of a file or folder, got {kind_of(name)}")
    text = os.fspath(name)
    if "\0" in text:
        raise ConfigError(f"{text!r}: no file can be named like this: there is a NUL character")
    if is_address(text):  # as a path it would be a folder called `s3:`
        raise ConfigError(f"{text}: is an address; expected the name of a file or folder here")
    if isinstance(name, Path) and _AS_PATH.match(text):
        raise ConfigError(f"{text}: is an address as a Path; give it as a text, with two slashes")
    try:
        return Path(text).expanduser()
    except RuntimeError:
        user = Path(text).parts[0]
        raise ConfigError(f"{text}: {user} is nobody's folder here; write it out") from None


def kind_of(thing: object) -> str:
    """Say what something is, briefly, where a text was expected: an array must not be printed."""
    shape = getattr(thing, "shape", None)
    what = type(thing).__name__
    return f"{what} of shape {shape}" if isinstance(shape, tuple) else what


BUCKETS = ("s3", "s3a", "gs", "az", "abfs", "abfss")  # schemes of stores that are written to
WEB = ("http", "https")  # those that are only read, by name: nobody can list them
_MESSAGES = (  # what says most in the long text of an error, the best first
    re.compile(r"<Message>(.+?)</Message>", re.DOTALL),
    re.compile(r'message: "(.+?)"'),
    re.compile(r"(?:non-2xx status code|HTTP error): ([^\n]+)"),
    re.compile(r"([^\n]+)"),
)
_MOST_TOLD = 160  # letters of it


def scheme_of(address: str) -> str:
    """Return what an address begins with."""
    return address.partition("://")[0].lower()


def reach(address: str) -> Any:
    """Return the store of objects (of obstore) below an address; nothing is asked of it yet.

    Credentials and endpoints come from the environment.
    """
    if scheme_of(address) not in (*BUCKETS, *WEB):
        known = ", ".join(f"{scheme}://" for scheme in (*BUCKETS, *WEB))
        raise ConfigError(f"{address}: nothing is known of such addresses; expected {known}")
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise ConfigError(
            f"{address}: addresses need the extra `remote`: pip install 'aaams-stream[remote]'"
        ) from None
    try:
        if scheme_of(address) == "http":
            return from_url(address, client_options={"allow_http": True})
        return from_url(address)  # AWS_ALLOW_HTTP and the like decide
    except (BaseError, ValueError) as error:
        raise ConfigError(f"{address}: cannot be reached ({reason_of(error)})") from error


class ObjectFile:
    """The object at an address as a file to read; failures are an OSError."""

    def __init__(self, address: str) -> None:
        folder, _, name = address.rpartition("/")
        if folder.endswith("/") or not name:
            raise ConfigError(f"{address}: expected the address of a file, as s3://bucket/clip.mp4")
        store = reach(folder)
        from obstore import open_reader

        with _system_errors():
            self._file = open_reader(store, name)
        self.size: int = self._file.size

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end."""
        with _system_errors():
            return bytes(self._file.read(size))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place; return it."""
        with _system_errors():
            return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        """Return where the next read begins."""
        return int(self._file.tell())


@contextmanager
def _system_errors() -> Iterator[None]:
    """Turn the errors of a store of objects into those of a system, of one line."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "there is no such file") from None
    except Exception as error:
        if not is_failure(error):
            raise
        raise OSError(errno.EIO, reason_of(error)) from error


def is_failure(error: BaseException) -> bool:
    """Whether an error is one of a store of objects, or of the system."""
    return isinstance(error, OSError) or type(error).__module__ == "obstore.exceptions"


def reason_of(error: BaseException) -> str:
    """Return one line on an error of a store of objects, which tells pages."""
    text = str(error)
    if "169.254.169.254" in text or "metadata.google.internal" in text:
        # where a virtual machine asks who it is: nothing else said so
        return "no credentials: name them in the environment, as AWS_ACCESS_KEY_ID"
    found = next((m for m in (pattern.search(text) for pattern in _MESSAGES) if m), None)
    told = " ".join(found.group(1).split()) if found else type(error).__name__
    return told if len(told) <= _MOST_TOLD else f"{told[: _MOST_TOLD - 1]}…"
