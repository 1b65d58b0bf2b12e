"""Volumes drawn over their sources."""

from __future__ import annotations

import signal
from fractions import Fraction

import numpy as np
import pytest
from support.clips import film_times, moving_frames, write_clip

from aaams_stream.cluster.door import segment_video
from aaams_stream.errors import SinkError, SourceError
from aaams_stream.run.render import OBJECTS, render_volume
from aaams_stream.run.stream import replay
from aaams_stream.source import open_source
from aaams_stream.store import open_volume


@pytest.mark.parametrize("with_video", [False, True])
def test_render_takes_the_source_or_the_volume_s_own_pictures(tmp_path, with_video):
    source = write_clip(tmp_path / "a.mkv", moving_frames(11), rate=10)
    segment_video(source, tmp_path / "a.zarr", with_video=with_video, start=0.5)
    if with_video:
        source.unlink()
    film = tmp_path / "o.mp4"
    assert render_volume(tmp_path / "a.zarr", film, view="colours") == 6
    assert film_times(film) == [Fraction(tick, 10) for tick in range(5, 11)]
    with pytest.raises(SinkError, match="--overwrite"):
        render_volume(tmp_path / "a.zarr", film)
    assert render_volume(tmp_path / "a.zarr", film, overwrite=True) == 6


def test_render_asks_for_a_source_that_moved_or_changed(tmp_path):
    source = write_clip(tmp_path / "a.mkv", moving_frames(11), rate=10)
    segment_video(source, tmp_path / "a.zarr")
    moved = source.rename(tmp_path / "b.mkv")
    with pytest.raises(SourceError, match="--source"):
        render_volume(tmp_path / "a.zarr", tmp_path / "o.mp4")
    write_clip(source, moving_frames(11, seed=1), rate=10)
    with pytest.raises(SourceError, match="has changed"):
        render_volume(tmp_path / "a.zarr", tmp_path / "o.mp4")
    assert not (tmp_path / "o.mp4").exists()
    with pytest.raises(SourceError, match=r"a\.mkv: is not what the volume was made from"):
        render_volume(tmp_path / "a.zarr", tmp_path / "o.mp4", source=source)
    assert not (tmp_path / "o.mp4").exists()
    assert render_volume(tmp_path / "a.zarr", tmp_path / "o.mp4", source=moved) == 11


def live_volume(monkeypatch, tmp_path, **words):
    """Segment a clip that cannot be read again, as a pipe cannot; return clip and volume."""
    source = write_clip(tmp_path / "a.mkv", moving_frames(11), rate=10)

    def unrepeatable(spec, clip):
        opened = open_source(spec, clip)
        opened.fingerprint = None
        return opened

    with monkeypatch.context() as patch:
        patch.setattr("aaams_stream.run.segment_video.open_source", unrepeatable)
        segment_video(source, tmp_path / "a.zarr", **words)
    return source, tmp_path / "a.zarr"


def test_render_never_draws_over_what_comes_now_where_a_volume_was_made_live(tmp_path, monkeypatch):
    source, path = live_volume(monkeypatch, tmp_path)
    remedy = (
        r"a\.zarr: was made .* cannot be read again; name .* --source, or segment with --with-vi"
    )
    with pytest.raises(SourceError, match=remedy):
        render_volume(path, tmp_path / "o.mp4")
    with pytest.raises(SourceError, match=remedy):
        next(replay(open_volume(path)))
    assert not (tmp_path / "o.mp4").exists()
    assert render_volume(path, tmp_path / "o.mp4", source=source) == 11
    other = write_clip(tmp_path / "other.mkv", [255 - rgb for rgb in moving_frames(11)], rate=10)
    with pytest.raises(SourceError, match=r"other\.mkv: is not what .* colours of frame 0"):
        render_volume(path, tmp_path / "o.mp4", source=other, overwrite=True)
    write_clip(source, moving_frames(4), rate=10)
    with pytest.raises(SourceError, match="ended after 4 frames of 11"):
        render_volume(path, tmp_path / "o.mp4", source=source, overwrite=True)
    with pytest.raises(SourceError, match="ended after 4 frames of 11"):
        list(replay(open_volume(path), source))


def test_render_draws_a_volume_made_live_that_has_its_pictures(tmp_path, monkeypatch):
    source, path = live_volume(monkeypatch, tmp_path, with_video=True)
    source.unlink()
    assert render_volume(path, tmp_path / "o.mp4") == 11


def test_render_knows_the_source_of_a_volume_with_an_older_fingerprint(tmp_path, monkeypatch):
    source = write_clip(tmp_path / "a.mkv", moving_frames(11), rate=10)

    def older(spec, clip):
        opened = open_source(spec, clip)
        opened.fingerprint = opened.fingerprint.split()[0]
        return opened

    with monkeypatch.context() as patch:
        patch.setattr("aaams_stream.run.segment_video.open_source", older)
        segment_video(source, tmp_path / "a.zarr")
    assert render_volume(tmp_path / "a.zarr", tmp_path / "o.mp4") == 11
    assert segment_video(source, tmp_path / "a.zarr", resume=True).resumed_from == 11


def test_render_says_that_a_volume_is_not_complete(clip, tmp_path, press_at):
    with pytest.raises(KeyboardInterrupt):
        segment_video(clip, tmp_path / "a.zarr", progress=press_at(11))
    with pytest.raises(SinkError, match=r"is not complete \(16 frames so far\); .* with --partial"):
        render_volume(tmp_path / "a.zarr", tmp_path / "a.mp4")
    assert not (tmp_path / "a.mp4").exists()
    assert render_volume(tmp_path / "a.zarr", tmp_path / "a.mp4", partial=True) == 16


def test_render_refuses_a_volume_without_frames(clip, tmp_path):
    def press(progress):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        segment_video(clip, tmp_path / "a.zarr", progress=press)
    assert open_volume(tmp_path / "a.zarr").frame_count == 0
    with pytest.raises(SinkError, match=r"a\.zarr: holds no frames yet; --resume"):
        render_volume(tmp_path / "a.zarr", tmp_path / "a.mp4")


def test_render_draws_a_volume_seen_at_a_level(clip, tmp_path, monkeypatch):
    drawn = []

    def note(rgb, ids, view, **others):
        drawn.append((ids, view, others["fine"]))
        return rgb

    segment_video(clip, tmp_path / "a.zarr")
    volume = open_volume(tmp_path / "a.zarr")
    view = volume.at(segments=3)
    monkeypatch.setattr("aaams_stream.run.render.draw_view", note)
    assert render_volume(view, tmp_path / "a.mp4") == 37
    np.testing.assert_array_equal(np.stack([ids for ids, _, _ in drawn]), view.ids[:])
    assert {(kind, fine is None) for _, kind, fine in drawn} == {("boundaries", True)}
    drawn.clear()
    render_volume(view, tmp_path / "b.mp4", view="objects")
    np.testing.assert_array_equal(drawn[5][0], view.ids[5])
    np.testing.assert_array_equal(drawn[5][2], volume.ids[5])
    drawn.clear()
    render_volume(tmp_path / "a.zarr", tmp_path / "c.mp4", view="objects")
    np.testing.assert_array_equal(drawn[5][0], volume.at(segments=OBJECTS).ids[5])


def test_replay_takes_a_volume_alone(clip):
    with pytest.raises(ValueError, match="expected a volume, as open_volume gives it, got str"):
        next(replay("a.zarr"))
