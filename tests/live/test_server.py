"""The preview's server: where it listens, and its connections."""

from __future__ import annotations

import contextlib

import pytest
from support.cameras import fake_camera
from support.clocks import HandClock
from support.live import PARAMS, preview, wait_until, watch
from support.viewers import Viewer

from aaams_stream.errors import ConfigError
from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.server import PreviewServer

pytestmark = pytest.mark.usefixtures("compiled")


def test_server_survives_killed_viewers(shared):
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


def test_server_is_idle_when_the_last_viewer_has_left_for_long_enough(tmp_path):
    clock = HandClock()
    with preview(tmp_path, clock=clock) as (_, server):
        assert not server.idle(0.0)
        with Viewer(server.url) as viewer:
            viewer.see_frame()
            assert not server.idle(0.0)
        wait_until(lambda: server.idle(0.0))
        assert not server.idle(60.0)
        clock.advance(60.0)
        assert server.idle(60.0)
        with Viewer(server.url) as viewer:
            viewer.see_frame()
            assert not server.idle(0.0)


def test_server_needs_a_token_on_another_address(tmp_path):
    with LiveLoop(fake_camera(), PARAMS) as loop:
        for host in ("0.0.0.0", "::", "192.0.2.7", "example.org"):
            with pytest.raises(ConfigError, match="needs a token"):
                PreviewServer(loop, Commands(loop, tmp_path), host=host, token="")


def test_server_turns_too_many_viewers_away(tmp_path, monkeypatch):
    monkeypatch.setattr("aaams_stream.live.site._MOST_VIEWERS", 3)
    with preview(tmp_path) as (_, server), contextlib.ExitStack() as stack:
        viewers = [stack.enter_context(Viewer(server.url)) for _ in range(3)]
        for viewer in viewers:
            viewer.see_frame()
        with Viewer(server.url) as fourth:
            assert fourth.hear() == (0x8, b"\x03\xf5too many viewers")
        for viewer in viewers:
            viewer.see_frame()


def test_server_closes_though_a_viewer_takes_nothing(tmp_path):
    with preview(tmp_path) as (loop, server):
        viewer = Viewer(server.url)
        wait_until(lambda: server.viewers == 1)
        watch(loop, 3)
    assert viewer.gone()
    viewer.leave()


def test_server_closes_without_having_been_started(tmp_path):
    loop = LiveLoop(fake_camera(), PARAMS)
    PreviewServer(loop, Commands(loop, tmp_path)).close()
    loop.close()
