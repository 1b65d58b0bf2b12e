"""Opening the page in a browser without telling others its address."""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
import webbrowser
from pathlib import Path

_LEAD = """<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={url}"><title>aaams-stream preview</title>
<p><a href="{url}">To the preview</a>
"""


def open_browser(url: str) -> None:
    """Open the page in a graphical browser; one for text would take the terminal.

    The address goes through a file that only its owner can read: others of this machine see the
    words with which a process was started, and would see the token.
    """
    graphical = sys.platform in ("darwin", "win32")
    if graphical or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        handle, name = tempfile.mkstemp(".html", "aaams-stream-")  # readable for its owner alone
        with open(handle, "w", encoding="utf-8") as file:
            file.write(_LEAD.format(url=url))
        atexit.register(Path(name).unlink, missing_ok=True)
        webbrowser.open(Path(name).as_uri())
