"""Every command and every block of Python in the README and the guides runs, or at least parses."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from support import ROOT
from support.clips import H264, write_clip
from support.commands import run

from aaams_stream.cli import build_parser
from aaams_stream.source.demo import demo_frame

README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = [*sorted((ROOT / "docs").glob("guide/*.md")), ROOT / "docs" / "start.md"]


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def commands(text: str) -> list[list[str]]:
    """Return our commands in the shell blocks of a page, as words from `aaams-stream` on."""
    found = []
    for block in blocks(text, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|;", line):
                words = shlex.split(part, comments=True)
                if words and Path(words[0]).name == "aaams-stream":
                    found.append(["aaams-stream", *words[1:]])
                elif words and words[0] == "python" and words[1].startswith("pipelines/"):
                    found.append(words[1:])
    return found


def test_readme_is_short():
    assert len(README.splitlines()) <= 120


def test_readme_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", README):
        if not target.startswith("http"):
            assert (ROOT / target).exists(), target


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Make a folder with the inputs the README speaks of: small, drawn on the spot."""
    folder = tmp_path_factory.mktemp("readme")
    frames = [cv2.resize(demo_frame(t).rgb, (160, 120)) for t in range(12)]
    write_clip(folder / "clip.mp4", frames, **H264)
    cv2.imwrite(str(folder / "photo.jpg"), frames[0][:, :, ::-1])
    (folder / "videos").mkdir()
    write_clip(folder / "videos" / "short.mp4", frames[:3], **H264)
    return folder


def test_every_command_of_the_readme_runs(place, monkeypatch, compiled):
    monkeypatch.chdir(place)
    done = []
    for words in commands(README):
        if words[0].startswith("pipelines/"):
            monkeypatch.setattr(sys, "argv", [str(ROOT / words[0]), *words[1:]])
            with pytest.raises(SystemExit) as ended:
                runpy.run_path(sys.argv[0], run_name="__main__")
            assert ended.value.code == 0, words
        elif words[1] == "preview":  # goes on until it is left; tests of its own run it
            build_parser().parse_args(words[1:])
        else:
            assert run(*words[1:]) == 0, words
        done.append(words[1])
    assert {
        "segment",
        "render",
        "check",
        "batch",
        "export",
        "objects",
        "follow",
        "image",
        "preview",
    } <= set(done)
    for made in ("demo.mp4", "film.mp4", "volumes/short.mp4.zarr", "things.json", "labels.png"):
        assert (place / made).exists(), made
    assert list((place / "tables").iterdir())
    names: dict[str, object] = {}
    for block in blocks(README, "python"):
        exec(compile(block, "README.md", "exec"), names)
    masks = list(names["masks"])
    assert len(masks) == 12
    assert all(np.any(mask) for mask in masks)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_commands_of_the_guides_parse(page):
    for words in commands(page.read_text(encoding="utf-8")):
        if words[0] == "aaams-stream":
            build_parser().parse_args(words[1:])
        else:
            assert (ROOT / words[0]).exists()


def test_citation_names_the_paper():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert "arXiv:1411.4102" in text
