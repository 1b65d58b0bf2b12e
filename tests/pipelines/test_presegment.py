"""The script that segments a folder overnight."""

from __future__ import annotations

import runpy

import pytest
from support import ROOT
from support.clips import moving_frames, write_clip

from aaams_stream.store import open_volume

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def presegment():
    return runpy.run_path(str(ROOT / "pipelines" / "presegment.py"))["main"]


def test_presegment_segments_a_folder_and_then_leaves_it_alone(presegment, tmp_path, capsys):
    (tmp_path / "videos" / "deep").mkdir(parents=True)
    write_clip(tmp_path / "videos" / "deep" / "b.mkv", moving_frames(10))
    words = [str(tmp_path / "videos"), str(tmp_path / "out"), "--set", "post.level=0.5"]
    assert presegment(words) == 0
    assert "1 done" in capsys.readouterr().out
    volume = open_volume(tmp_path / "out" / "deep" / "b.mkv.zarr")
    assert (volume.frame_count, volume.params.post.level) == (10, 0.5)
    assert presegment(words) == 0
    assert "1 skipped" in capsys.readouterr().out


def test_presegment_with_nothing_to_do_is_an_error(presegment, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert presegment([str(tmp_path / "empty"), str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith("error: ")
