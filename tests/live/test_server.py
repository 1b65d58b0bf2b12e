"""The preview's server: what viewers get, and who gets nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

import cv2
import numpy as np
import pytest
import skimage.color
from support import ROOT
from support.cameras import fake_camera
from support.clips import moving_frames, write_clip
from support.viewers import Viewer, ask

from aaams_stream.cli import main
from aaams_stream.draw.views import LIVE_VIEWS
from aaams_stream.errors import ConfigError
from aaams_stream.live import LiveLoop
from aaams_stream.live import server as servers
from aaams_stream.live.commands import Desk
from aaams_stream.live.server import PreviewServer
from aaams_stream.live.websocket import WebSocket
from aaams_stream.live.window import Panel, check_display
from aaams_stream.live.wire import Encoder, encode_frame
from aaams_stream.params import Params
from aaams_stream.store import open_volume

pytestmark = pytest.mark.usefixtures("compiled")
PARAMS = Params().updated({"stream": {"segments": 12}})
TOKEN = "0123456789abcdef"


@contextlib.contextmanager
def preview(folder, **options):
    """Run a preview of a camera that is not there; yield the loop and the server."""
    loop = LiveLoop(fake_camera(), PARAMS)
    with loop, PreviewServer(loop, Desk(loop, folder), **options) as server:
        yield loop, server


@pytest.fixture(scope="module")
def shared(compiled, tmp_path_factory):
    """Yield a preview that several tests look at and none changes for good."""
    with preview(tmp_path_factory.mktemp("shared")) as (loop, server):
        with Viewer(server.url) as viewer:
            viewer.see_frame()
        yield loop, server


def wait_until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()


def test_a_viewer_gets_frames_with_their_segments(shared):
    with Viewer(shared[1].url) as viewer:
        numbers = []
        for _ in range(5):
            seen = viewer.see_frame()
            numbers.append(seen.head["number"])
            assert seen.ids.shape == (120, 160)
            assert len(np.unique(seen.ids)) == seen.head["segments"]
            assert seen.rgb.shape == (120, 160, 3)
        assert numbers == sorted(set(numbers))
        for figure in ("fps", "latency", "warm", "dropped", "quality", "wanted", "viewers"):
            assert figure in seen.head
        assert seen.head["glass"] > 0


def test_what_is_sent_is_what_was_segmented():
    with LiveLoop(fake_camera(), PARAMS) as loop:
        shown = None
        while shown is None:
            shown = loop.wait(0, 1.0)[1]
    sizes, data = encode_frame(shown)
    from support.viewers import unpack

    head = json.dumps(sizes | {"number": 1}).encode()
    head += b" " * (-len(head) % 4)
    seen = unpack(len(head).to_bytes(4, "little") + head + data)
    np.testing.assert_array_equal(seen.ids, shown.segmentation.ids)
    np.testing.assert_allclose(seen.centroids, shown.segmentation.segments["centroid"])
    assert np.abs(seen.rgb.astype(int) - shown.frame.rgb).mean() < 12
    means = 255 * skimage.color.lab2rgb(shown.segmentation.segments["colour"])
    np.testing.assert_allclose(seen.colours[:, :3], means, atol=2)
    assert (seen.colours[:, 3] == 255).all()


@pytest.mark.parametrize(
    ("source", "title"),
    [
        ("camera:0", "camera:0"),
        ("demo", "demo"),
        ("/home/me/private/clip.mp4", "clip.mp4"),
        ("rtsp://me:secret@192.0.2.7:554/live?key=secret", "rtsp://192.0.2.7/live"),
    ],
)
def test_viewers_learn_no_more_of_the_source_than_its_name(source, title):
    assert servers.title_of(source) == title


def test_all_viewers_are_sent_the_same_bytes(shared):
    site = shared[1]._server.site
    version, shown = shared[0].wait(0, 1.0)
    text, picture = site.bulletin(version, shown)
    again = site.bulletin(version, shown)
    assert again[0] is text
    assert again[1] is picture
    assert json.loads(text)["number"] == shown.number
    alone, nothing = site.bulletin(version, None)  # for who has seen that frame
    assert nothing == b""
    assert "number" not in json.loads(alone)


@pytest.mark.parametrize("gathers", [True, False])
def test_a_message_longer_than_the_line_takes_arrives_whole(gathers, monkeypatch):
    monkeypatch.setattr("aaams_stream.live.websocket._GATHERS", gathers)
    parts = [b"head", bytes(range(256)) * 20_000, b"tail"]
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as reader:
        ours.settimeout(60)
        sender = threading.Thread(target=WebSocket(ours, reader).send, args=parts)
        sender.start()
        time.sleep(0.1)  # until nothing more fits
        data = reader.read(10 + sum(map(len, parts)))
        sender.join()
    assert data[:2] == b"\x82\x7f"
    assert data[10:] == b"".join(parts)


def test_a_frame_is_encoded_once_for_all(shared, monkeypatch):
    shown = shared[0].wait(0, 1.0)[1]
    encoder = Encoder()
    first = encoder.encode(shown)
    assert encoder.encode(shown) is first
    assert encoder.encode(dataclasses.replace(shown, number=shown.number + 1)) is not first


def test_a_slow_viewer_slows_nobody_and_sees_the_newest_when_it_looks_again(shared):
    loop, server = shared
    with Viewer(server.url) as slow, Viewer(server.url) as quick:
        slow.see_frame()
        code, _ = slow.hear()  # and does not say that it has shown it
        assert code == 2
        begun = loop.wait(0, 0)[1].number
        frames = [quick.see_frame().head["number"] for _ in range(15)]
        assert len(set(frames)) == 15
        behind = loop.wait(0, 0)[1].number - begun
        assert behind >= 10
        slow.say(b"shown")
        assert slow.see_frame().head["number"] > begun + 5


def test_a_killed_viewer_harms_nobody(shared):
    _, server = shared
    wait_until(lambda: server.viewers == 0)
    viewers = [Viewer(server.url) for _ in range(3)]
    for viewer in viewers:
        viewer.see_frame()
    with Viewer(server.url) as witness:
        witness.see_frame()
        assert server.viewers == 4
        for viewer in viewers:
            viewer.leave()
        for _ in range(5):
            witness.see_frame()
        wait_until(lambda: server.viewers == 1)


@pytest.mark.parametrize(
    ("said", "code", "mask"), [(b"", 0x8, True), (b"hello", 0x1, False), (b"x" * 100, 0x8, True)]
)
def test_a_viewer_that_closes_or_babbles_is_let_go(shared, said, code, mask):
    _, server = shared
    wait_until(lambda: server.viewers == 0)
    with Viewer(server.url) as viewer:
        viewer.say(said, code, mask)
        wait_until(lambda: server.viewers == 0)


def test_a_ping_is_answered(shared):
    with Viewer(shared[1].url) as viewer:
        viewer.hear()
        viewer.say(b"there?", 0x9)
        assert viewer.hear() == (0xA, b"there?")


def test_the_last_viewer_to_leave_is_noticed(tmp_path):
    with preview(tmp_path) as (_, server):
        assert not server.deserted(0.0)
        with Viewer(server.url) as viewer:
            viewer.see_frame()
            assert not server.deserted(0.0)
        wait_until(lambda: server.deserted(0.0))
        assert not server.deserted(60.0)


def test_the_page_says_what_it_may_load(shared):
    server = urlsplit(shared[1].url)
    connection = http.client.HTTPConnection(server.hostname, server.port)
    connection.request("GET", "/")
    response = connection.getresponse()
    page = response.read().decode()
    connection.close()
    assert response.status == 200
    assert "<title>aaams-stream preview</title>" in page
    assert "/* page." not in page
    policy = response.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "192.0.2.7:{port}"),
        *("user@127.0.0.1:{port}", "127.0.0.1:{port}/x", "127.0.0.1:{port}x", "", "[::1"),
    ],
)
def test_a_request_for_another_host_is_refused(shared, host):
    url = shared[1].url
    port = urlsplit(url).port
    status, answer = ask(url, "/segment?id=1", headers={"Host": host.format(port=port)})
    assert (status, answer) == (421, {"error": "unknown host"})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.2"])
def test_a_request_for_this_machine_is_answered(shared, host):
    url = shared[1].url
    headers = {"Host": f"{host}:{urlsplit(url).port}"}
    assert ask(url, "/segment?id=123456", headers=headers)[0] == 404


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1:1"]
)
def test_another_origin_is_refused_everywhere(shared, origin):
    url = shared[1].url
    headers = {"Origin": origin}
    assert ask(url, "/segment?id=1", headers=headers)[0] == 403
    assert ask(url, "/command", {"do": "pause"}, headers)[0] == 403
    with Viewer(url, headers=headers) as viewer:
        assert viewer.status == 403
    assert not shared[0].status.paused


def test_its_own_origin_is_welcome(shared):
    url = shared[1].url
    headers = {"Origin": url.rstrip("/")}
    assert ask(url, "/command", {"do": "resume"}, headers)[0] == 200
    with Viewer(url, headers=headers) as viewer:
        assert viewer.status == 101


def test_a_token_is_asked_for_on_every_request(tmp_path):
    with preview(tmp_path, token=TOKEN) as (loop, server):
        assert server.url.endswith(f"/?token={TOKEN}")
        for wrong in ("", "?token=", "?token=0123456789abcdeF", f"?token={TOKEN}0", "?Token=x"):
            assert ask(server.url, f"/{wrong}")[0] == 401
            assert ask(server.url, f"/segment{wrong}")[0] == 401
            assert ask(server.url, f"/nowhere{wrong}")[0] == 401
            assert ask(server.url, f"/command{wrong}", {"do": "pause"})[0] == 401
            with Viewer(server.url, f"/stream{wrong}") as viewer:
                assert viewer.status == 401
        assert not loop.status.paused
        assert ask(server.url, f"/command?token={TOKEN}", {"do": "pause"})[0] == 200
        assert loop.status.paused
        with Viewer(server.url, f"/stream?token={TOKEN}") as viewer:
            assert viewer.status == 101


def test_another_address_needs_a_token(tmp_path):
    with LiveLoop(fake_camera(), PARAMS) as loop:
        for host in ("0.0.0.0", "::", "192.0.2.7", "example.org"):
            with pytest.raises(ConfigError, match="needs a token"):
                PreviewServer(loop, Desk(loop, tmp_path), host=host)


def test_beyond_loopback_a_host_must_be_an_address_or_our_name(tmp_path):
    """Addresses cannot be spoofed by a name that resolves to us; the token does the rest."""
    with preview(tmp_path, host="0.0.0.0", token=TOKEN) as (_, server):
        port = urlsplit(server.url).port
        url = f"http://127.0.0.1:{port}/"
        for host, status in (
            ("192.0.2.7", 404),
            (socket.gethostname(), 404),
            ("evil.example", 421),
        ):
            headers = {"Host": f"{host}:{port}"}
            assert ask(url, f"/segment?id=77777&token={TOKEN}", headers=headers)[0] == status


@pytest.mark.parametrize(
    "path",
    [
        *("/../../etc/passwd", "/etc/passwd", "/%2e%2e/x", "//etc/passwd", "/page.js"),
        *("/command", "/segment", "/segment?id=../x", "/segment?id=-1", f"/segment?id={'9' * 40}"),
        "/segment?id=%D9%A1",  # a digit, but not one of ours
    ],
)
def test_no_path_leads_anywhere_else(shared, path):
    assert ask(shared[1].url, path)[0] == 404


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({}, "unknown command"),
        ({"do": "format"}, "unknown command; expected one of pause, resume"),
        ({"do": ["pause"]}, "unknown command"),
        ({"do": "detail"}, "segments must be a whole number"),
        ({"do": "detail", "segments": True}, "segments must be"),
        ({"do": "detail", "segments": 0}, "segments must be"),
        ({"do": "detail", "segments": 10**9}, "segments must be"),
        ({"do": "snapshot", "view": "../x"}, "view must be one of boundaries"),
        ({"do": "snapshot", "opacity": 7}, "opacity must be in 0..1"),
        ({"do": "stop"}, "nothing is recorded"),
        ([], "expected a JSON object"),
        ("pause", "expected a JSON object"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused(shared, order, message):
    status, answer = ask(shared[1].url, "/command", order)
    assert status == 400
    assert message in answer["error"]


def test_only_short_json_is_taken_as_a_command(shared):
    url = shared[1].url
    assert ask(url, "/command", {"do": "x" * 5000})[0] == 413
    assert ask(url, "/command", {"do": "pause"}, {"Content-Type": "text/plain"})[0] == 400
    assert not shared[0].status.paused


def test_commands_act_and_everyone_learns_of_it(tmp_path):
    with preview(tmp_path) as (loop, server), Viewer(server.url) as viewer:
        viewer.see_frame()
        assert ask(server.url, "/command", {"do": "pause"})[0] == 200
        while not viewer.see().head["paused"]:
            pass
        held = loop.wait(0, 0)[1]
        ask(server.url, "/command", {"do": "step"})
        while (seen := viewer.see_frame()).head["number"] <= held.number:
            pass
        assert seen.head["paused"]
        ask(server.url, "/command", {"do": "detail", "segments": 33})
        while viewer.see().head["wanted"] != 33:
            pass
        ask(server.url, "/command", {"do": "resume"})
        while viewer.see().head["paused"]:
            pass


def test_snapshots_and_recordings_go_into_the_folder_under_names_of_ours(tmp_path):
    folder = tmp_path / "made" / "here"
    with preview(folder) as (_, server), Viewer(server.url) as viewer:
        viewer.see_frame()
        names = set()
        for view in LIVE_VIEWS:
            order = {"do": "snapshot", "view": view, "opacity": 0.5, "path": "/etc/x", "name": "x"}
            status, answer = ask(server.url, "/command", order)
            assert status == 200
            names.add(answer["saved"])
            assert cv2.imread(str(folder / answer["saved"])).shape == (120, 160, 3)
        assert len(names) == 4
        status, answer = ask(server.url, "/command", {"do": "record", "path": "/etc/x"})
        assert status == 200
        assert re.fullmatch(r"preview-\d{8}-\d{6}\.zarr", answer["recording"])
        assert ask(server.url, "/command", {"do": "record"})[0] == 400
        while viewer.see_frame().head["recorded"] < 3:
            pass
        assert ask(server.url, "/command", {"do": "stop"})[1] == {"saved": answer["recording"]}
    assert {path.name for path in folder.iterdir()} == names | {answer["recording"]}
    assert open_volume(folder / answer["recording"]).complete


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").touch()
    with preview(tmp_path / "file" / "sub") as (_, server), Viewer(server.url) as viewer:
        viewer.see_frame()
        status, answer = ask(server.url, "/command", {"do": "snapshot"})
    assert status == 400
    assert "cannot be made" in answer["error"]


def test_a_segment_can_be_asked_about(shared):
    _, server = shared
    with Viewer(server.url) as viewer:
        seen = viewer.see_frame()
        track = int(seen.ids[60, 80])
        status, known = ask(server.url, f"/segment?id={track}")
    assert status == 200
    assert known["id"] == track
    assert known["history"][-1][3] > 0
    assert set(known) >= {"age", "area", "lab", "motion", "events"}


def test_too_many_connections_are_turned_away(shared, monkeypatch):
    _, server = shared
    wait_until(lambda: server.viewers == 0)
    monkeypatch.setattr(servers, "_MOST_CONNECTIONS", 3)
    with contextlib.ExitStack() as stack:
        viewers = [stack.enter_context(Viewer(server.url)) for _ in range(3)]
        with pytest.raises(ConnectionError):
            Viewer(server.url)
        for viewer in viewers:
            viewer.see_frame()


def test_keys_and_clicks_work_the_window(tmp_path):
    with LiveLoop(fake_camera(), PARAMS) as loop:
        panel = Panel(loop, Desk(loop, tmp_path))
        assert panel.draw(None).shape[1] == 640
        wait_until(lambda: loop.wait(0, 0.1)[1] is not None, 90)
        for key, check in (
            ("v", lambda: panel.view == "colours"),
            ("[", lambda: panel.opacity == pytest.approx(0.9)),
            ("]", lambda: panel.opacity == pytest.approx(1.0)),
            ("+", lambda: loop.status.wanted == 16),
            ("-", lambda: loop.status.wanted == 13),
            (" ", lambda: loop.status.paused),
            ("p", lambda: "saved preview-" in panel.message),
            (" ", lambda: not loop.status.paused),
            ("r", lambda: loop.status.recording is not None),
            ("r", lambda: loop.status.recording is None),
            ("?", lambda: not panel.closed),
        ):
            panel.press(key)
            assert check(), key
        shown = loop.wait(0, 0)[1]
        plain = panel.draw(shown)
        assert plain.shape[1] == 640  # small pictures are enlarged
        loop.pause()
        time.sleep(0.3)
        panel.click(4 * 80 + 3, 4 * 60 + 3)
        shown = loop.wait(0, 0)[1]
        assert panel.selected == shown.segmentation.ids[60, 80]
        chosen = panel.draw(shown)
        panel.selected = None
        assert (chosen[:480] != panel.draw(shown)[:480]).any()
        panel.click(9999, 5)
        assert panel.selected is None
        panel.press("q")
        assert panel.closed
    assert len(list(tmp_path.iterdir())) == 2


def test_a_window_without_a_display_is_refused_with_a_way_out(monkeypatch, capsys):
    """In a process of its own: OpenCV would take ours down."""
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(ConfigError, match=r"no window can be opened \(.*without --window there"):
        check_display()
    assert main(["preview", "demo", "--window"]) == 2
    assert capsys.readouterr().err.startswith("error: --window: no window can be opened")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.mp4",), "nowhere.mp4: no such file or folder"),
        (("camera:77",), "camera:77: there is no such camera"),
        (("demo", "--fps", "-1"), "--fps must be in 0..1000, got -1"),
        (("demo", "--port", "70000"), "--port must be in 0..65535"),
        (("demo", "--segments", "0"), "--segments must be >= 1"),
        (("demo", "--token", "short"), "--token must be 16 or more letters and digits"),
        (("demo", "--config", "nothing"), "nothing: no such configuration; expected a TOML file"),
        (("demo", "--host", "192.0.2.7", "--no-open"), "192.0.2.7:0: cannot be listened on"),
    ],
)
def test_what_cannot_be_previewed_is_one_line(words, message, capsys):
    if words[0] == "camera:77" and not sys.platform.startswith("linux"):
        pytest.skip("cameras are found by their device files on Linux alone")
    assert main(["preview", *words, "--quiet"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


def run_preview(*words):
    """Begin a preview as a user does; return the process and the address it prints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "aaams_stream", "preview", *map(str, words), "--no-open"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=None,
    )
    told = process.stdout.readline()
    assert told.startswith("preview: "), told + process.stderr.read()
    return process, told.split()[1]


def end(process):
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def test_a_file_is_previewed_until_ctrl_c(tmp_path):
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


def test_a_service_that_is_stopped_finishes_its_recording(tmp_path):
    process, url = run_preview("demo", "--size", "80x60", "--folder", tmp_path)
    with Viewer(url) as viewer:
        viewer.see_frame()
        assert ask(url, "/command", {"do": "record"})[0] == 200
        while viewer.see_frame().head["recorded"] < 3:
            pass
    process.terminate()
    assert end(process)[0] == 130
    (volume,) = tmp_path.iterdir()
    assert open_volume(volume).complete


def test_it_ends_with_the_last_viewer_if_told_so(tmp_path):
    process, url = run_preview("demo", "--size", "80x60", "--stop-when-left", "--host", "localhost")
    with Viewer(url) as viewer:
        viewer.see_frame()
    code, _, err = end(process)
    assert code == 0, err


def test_beyond_loopback_a_token_is_made_up(tmp_path):
    process, url = run_preview("demo", "--size", "80x60", "--host", "0.0.0.0")
    try:
        token = urlsplit(url).query.removeprefix("token=")
        assert len(token) >= 32
        here = f"http://127.0.0.1:{urlsplit(url).port}/"
        assert ask(here, "/segment?id=1")[0] == 401
        assert ask(here, f"/segment?id=1234567&token={token}")[0] == 404
    finally:
        process.send_signal(signal.SIGINT)
        end(process)


def test_the_script_previews_a_camera():
    script = ROOT / "pipelines" / "webcam_preview.py"
    run = subprocess.run(
        [sys.executable, script, "demo", "--size", "80x60", "--seconds", "2"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "frames" in run.stdout
