"""The command `preview`, as a user runs it."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.clips import moving_frames, write_clip
from support.clocks import PATIENCE
from support.viewers import Viewer, ask

from aaams_stream.cli import main
from aaams_stream.live.browser import open_browser
from aaams_stream.store import open_volume

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.mp4",), "nowhere.mp4: no such file or folder"),
        (("camera:77",), "camera:77: there is no such camera"),
        (("demo", "--fps", "-1"), "--fps must be in 0..1000, got -1"),
        (("demo", "--port", "70000"), "--port must be in 0..65535"),
        (("demo", "--segments", "-1"), "--segments must be >= 0"),
        (("demo", "--token", "short"), "--token must be 16 or more letters and digits"),
        (("demo", "--token", "a" * 16, "--no-token"), "--token and --no-token contradict"),
        (("demo", "--host", "0.0.0.0", "--no-token"), "--no-token: 0.0.0.0 can be reached"),
        (("demo", "--config", "nothing"), "nothing: no such configuration; expected a TOML file"),
        (("demo", "--host", "192.0.2.7", "--no-open"), "192.0.2.7:0: cannot be listened on"),
    ],
)
def test_preview_says_in_one_line_what_cannot_be_shown(words, message, capsys):
    if words[0] == "camera:77" and not sys.platform.startswith("linux"):
        pytest.skip("cameras are found by their device files on Linux alone")
    assert main(["preview", *words, "--quiet"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def test_preview_records_for_no_time_below_zero(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["preview", "demo", "--max-recording", "-5"])
    assert stop.value.code == 2
    assert "--max-recording: expected seconds or [hh:]mm:ss, got '-5'" in capsys.readouterr().err


def run_preview(*words):
    """Begin a preview as a user does; return the process and the address it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aaams_stream", "preview", *map(str, words), "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    told = process.stdout.readline()
    assert told.startswith("preview: "), told + process.stderr.read()
    return process, told.split()[1]


def end(process):
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


def test_preview_shows_a_file_until_ctrl_c(tmp_path):
    clip = write_clip(tmp_path / "clip.mkv", moving_frames(10), rate=20)
    process, url = run_preview(clip, "--segments", 12)
    assert url.startswith("http://127.0.0.1:")
    with Viewer(url) as viewer:
        times = [viewer.see_frame().head["time"] for _ in range(15)]
    assert times[-1] > 0.5  # it is played over and over
    process.send_signal(signal.SIGINT)
    code, _, err = end(process)
    assert code == 130
    assert "Traceback" not in err


def test_preview_finishes_its_recording_when_it_is_stopped_as_a_service(tmp_path):
    process, url = run_preview("demo", "--size", "80x60", "--folder", tmp_path)
    with Viewer(url) as viewer:
        viewer.see_frame()
        assert "recording" in viewer.order({"do": "record"})
        while viewer.see_frame().head["recorded"] < 3:
            pass
    process.terminate()
    assert end(process)[0] == 143
    (volume,) = tmp_path.iterdir()
    assert open_volume(volume).complete


def test_preview_ends_with_the_last_viewer_if_told_so(tmp_path):
    process, url = run_preview("demo", "--size", "80x60", "--stop-when-left", "--host", "localhost")
    with Viewer(url) as viewer:
        viewer.see_frame()
    code, _, err = end(process)
    assert code == 0, err


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_preview_makes_a_token_up(host):
    process, url = run_preview("demo", "--size", "80x60", "--host", host)
    try:
        token = urlsplit(url).query.removeprefix("token=")
        assert len(token) >= 32
        here = f"http://127.0.0.1:{urlsplit(url).port}/"
        assert ask(here, "/")[0] == 401
        assert ask(here, f"/?token={token}")[0] == 200
    finally:
        process.send_signal(signal.SIGINT)
        end(process)


def test_preview_does_without_a_token_if_told_so():
    process, url = run_preview("demo", "--size", "80x60", "--no-token")
    try:
        assert urlsplit(url).query == ""
        assert ask(url, "/")[0] == 200
    finally:
        process.send_signal(signal.SIGINT)
        end(process)


def test_preview_opens_the_page_through_a_file_that_only_its_owner_reads(monkeypatch):
    """The words a process is started with are there for everybody to read: no token in them."""
    opened = []
    monkeypatch.setenv("DISPLAY", ":9")
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("atexit.register", lambda *args, **options: None)
    open_browser("http://127.0.0.1:1/?token=secret")
    path = Path(urlsplit(opened[0]).path)
    try:
        assert "secret" not in opened[0]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "url=http://127.0.0.1:1/?token=secret" in path.read_text()
    finally:
        path.unlink()
