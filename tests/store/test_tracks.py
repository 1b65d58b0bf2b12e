"""One row per identity, from the rows of its frames."""

from __future__ import annotations

import numpy as np
import pytest

from aaams_stream import open_volume, store
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.model import TRACK_DTYPE, Clip, EventKind
from aaams_stream.run.segment_video import Job, run_job
from aaams_stream.store.tracks import EVENT_ROW_DTYPE, _note_ends, build_tracks


def naive_tracks(volume):
    """Return a dict of each track, found frame by frame."""
    found: dict[int, dict[str, float]] = {}
    for t in range(volume.frame_count):
        for row in volume.segments(t):
            track = found.setdefault(int(row["id"]), {"first": t, "frames": 0, "volume": 0})
            if "stop" in track:
                gap = np.linalg.norm(row["centroid"].astype(float) - track["stop"])
                track["path"] = track.get("path", 0.0) + gap
            track.update(last=t, stop=row["centroid"], parent=row["parent"])
            track["frames"] += 1
            track["volume"] += row["area"]
    return found


def test_tracks_sum_up_the_life_of_each_id(volume):
    expected = naive_tracks(volume)
    tracks = volume.tracks
    assert tracks.dtype == TRACK_DTYPE
    assert tracks["id"].tolist() == sorted(expected)
    for row in tracks:
        track = expected[int(row["id"])]
        for name in ("first", "last", "frames", "volume", "parent"):
            assert row[name] == track[name], name
        assert row["path"] == pytest.approx(track.get("path", 0.0), abs=1e-3)
        assert row["stop"].tolist() == track["stop"].tolist()
    living = volume.segments(-1)["id"]
    np.testing.assert_array_equal(tracks["id"][tracks["end"] == 0], living)
    # read in stretches that cut through frames
    counts = (int(volume.offsets(name)[-1]) for name in ("segments", "events"))
    np.testing.assert_array_equal(build_tracks(volume._root, *counts, at_once=50), tracks)


def test_tracks_of_an_unfinished_volume_are_those_of_what_was_committed(
    demo_path, tmp_path, monkeypatch
):
    clip = Clip(duration=1, size=(160, 120))
    job = Job("demo", tmp_path / "a.zarr", clip=clip, with_video=True, resume=True)
    label, seen = Segmenter.label, []

    def stumble(self, prepared):
        seen.append(prepared.time)
        if len(seen) == 20:
            raise RuntimeError("power cut")
        return label(self, prepared)

    monkeypatch.setattr(Segmenter, "label", stumble)
    with pytest.raises(RuntimeError, match="power cut"):
        run_job(job, commit_seconds=0.0)
    part = open_volume(tmp_path / "a.zarr")
    assert not part.complete
    expected = naive_tracks(part)
    assert {int(row["id"]): row["frames"] for row in part.tracks} == {
        track_id: track["frames"] for track_id, track in expected.items()
    }
    monkeypatch.setattr(Segmenter, "label", label)
    run_job(job)
    whole = open_volume(tmp_path / "a.zarr")
    np.testing.assert_array_equal(whole.tracks, open_volume(demo_path).tracks)
    np.testing.assert_array_equal(whole.table("segments"), open_volume(demo_path).table("segments"))


def test_tracks_are_none_without_frames(tmp_path, demo_path):
    header = open_volume(demo_path).header
    store.create(tmp_path / "a.zarr", header, "1")
    assert len(open_volume(tmp_path / "a.zarr").tracks) == 0


def ended_one_by_one(tracks, events):
    """Note how tracks ended, event by event."""
    for event in events:
        for track in tracks:
            ends = event["kind"] in (EventKind.DEATH, EventKind.MERGE)
            if ends and track["id"] == event["id"] and event["frame"] > track["last"]:
                track["end"], track["heir"] = event["kind"], event["other"]
    for event in events[events["kind"] == EventKind.CUT]:
        for track in tracks:
            if track["last"] < event["frame"] and not track["end"]:
                track["end"] = EventKind.CUT


@pytest.mark.parametrize("seed", range(20))
def test_tracks_end_with_the_last_word_on_each(seed):
    rng = np.random.default_rng(seed)
    tracks = np.zeros(rng.integers(1, 12), TRACK_DTYPE)
    tracks["id"] = np.sort(rng.choice(40, len(tracks), replace=False) + 1)
    tracks["last"] = rng.integers(0, 20, len(tracks))
    events = np.zeros(60, EVENT_ROW_DTYPE)
    events["frame"] = np.sort(rng.integers(0, 22, 60))
    events["kind"] = rng.choice(list(EventKind)[: 5 + seed % 2], 60)
    events["id"], events["other"] = rng.integers(1, 41, (2, 60))
    expected = tracks.copy()
    ended_one_by_one(expected, events)
    _note_ends(tracks, events)
    np.testing.assert_array_equal(tracks, expected)
