"""Pages of the site that are read off the package: settings, the volume on disk, commands."""

from __future__ import annotations

from pathlib import Path

from generate import commands, others, settings, volume


def write_pages(folder: Path) -> None:
    """Write all generated pages, and their pictures, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "commands.md", commands.page())
    write(folder / "others.txt", others.page())
    write(folder / "volume.md", volume.page())
    write(folder / "settings.md", settings.page(folder / "settings"))


def write(path: Path, text: str) -> None:
    """Write a page if it differs, so that Sphinx reads again only what changed."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
