"""The page as it is served: one file with style and script inside, and a policy for just these."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from pathlib import PurePath
from typing import NamedTuple
from urllib.parse import urlsplit

# in this order: each may use what stands before it, and all what is called later
_SCRIPTS = ("page_stream.js", "page_groups.js", "page_paint.js", "page_objects.js", "page.js")


class Page(NamedTuple):
    """What a browser gets."""

    html: bytes
    policy: str  # its Content-Security-Policy


def build_page() -> Page:
    """Return the page and the policy that allows its own style and script alone."""
    folder = resources.files("aaams_stream.live")
    html, style, *scripts = (
        (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", *_SCRIPTS)
    )
    script = "\n".join(scripts)
    html = html.replace("/* page.css */", style).replace("/* page.js */", script)
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "connect-src 'self'; img-src 'self' data:"
    )
    return Page(html.encode(), policy)


def title_of(source: str) -> str:
    """Return what viewers may know of a source: no folders, and no password of an address."""
    if "://" in source:
        parts = urlsplit(source)
        return f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
    return PurePath(source).name or source


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
