"""What a program that uses the package may hear of, and that nobody else does."""

from __future__ import annotations

import logging
import subprocess
import sys

from support.clips import moving_frames, write_images

from aaams_stream import Params, segment_video, stream


def test_a_run_is_logged_with_where_it_begins_and_how_it_ends(clip, tmp_path, caplog):
    with caplog.at_level(logging.INFO, "aaams_stream"):
        segment_video(clip, tmp_path / "a.zarr")
    told = [record.getMessage() for record in caplog.records if "segment_video" in record.name]
    assert told[0].endswith(f"64x48, into {tmp_path / 'a.zarr'} from frame 0 on")
    assert told[-1] == f"{tmp_path / 'a.zarr'}: 37 frames, complete"


def test_warnings_of_a_source_are_logged_as_such(tmp_path, caplog):
    folder = write_images(tmp_path, moving_frames(3), "{:02d}.png")
    (tmp_path / "99.png").write_bytes(b"no picture")
    for _ in stream(folder):
        pass
    [record] = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "aaams_stream.source.source")
    assert "images that do not decode: 99.png" in record.getMessage()


def test_nobody_hears_who_does_not_ask():
    code = "import aaams_stream, logging; logging.getLogger('aaams_stream.x').warning('hear')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr == ""


def test_a_count_that_is_missed_is_said_once_by_whatever_was_asked_for_it(tmp_path, caplog):
    frames, params = moving_frames(80), Params().updated({"stream": {"segments": 400}})
    expected = "400 segments a frame were wanted, and "
    for _ in stream(iter(frames), params):
        pass
    [record] = caplog.records
    assert (record.levelname, record.name) == ("WARNING", "aaams_stream.run.stream")
    assert expected in record.getMessage()
    caplog.clear()
    for _ in stream(iter(frames[:3]), params):
        pass
    assert [expected in record.getMessage() for record in caplog.records] == [True]
    caplog.clear()
    folder = write_images(tmp_path / "images", frames[:3], "{:02d}.png")
    summary = segment_video(folder, tmp_path / "a.zarr", params)
    [told] = summary.warnings
    assert told.startswith(expected)
    assert [record.getMessage().endswith(told) for record in caplog.records] == [True]
