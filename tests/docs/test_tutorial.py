"""The tutorial runs as it stands, and its pictures are those of the last run that drew them."""

from __future__ import annotations

import re

import pytest
from support import ROOT

DOCS = ROOT / "docs"


def test_the_tutorial_runs(tmp_path, monkeypatch, capsys):
    plt = pytest.importorskip("matplotlib.pyplot")
    text = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) >= 8
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "tutorial.md", "exec"), names)
    plt.close("all")
    said = capsys.readouterr().out
    assert "<Volume demo.zarr: 48 frames, 320x240, 24 fps, complete, with video and levels>" in said
    assert len(names["movers"]) >= 2
    for name in ("tracks.png", "followed.png"):
        assert (tmp_path / name).stat().st_size > 5000
        assert f"(tutorial_{name})" in text
        assert (DOCS / f"tutorial_{name}").exists()
    masks = names["masks"]
    assert len(masks) == 48
    assert all(0.5 < mask.sum() / masks[0].sum() < 1.5 for mask in masks)
