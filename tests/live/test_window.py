"""The window: its panel without a display, and the refusal where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from support.cameras import GatedSource, fake_camera
from support.live import PARAMS, catch_up, newest, watch

from aaams_stream.cli import main
from aaams_stream.errors import ConfigError
from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.window import Panel, check_display

pytestmark = pytest.mark.usefixtures("compiled")


def test_window_is_worked_by_keys_and_clicks(tmp_path):
    camera = GatedSource(fake_camera(), released=True)
    with LiveLoop(camera, PARAMS) as loop:
        panel = Panel(loop, Commands(loop, tmp_path))
        assert panel.draw(None).shape[1] == 640
        watch(loop, 1)
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
        shown = catch_up(loop, camera)
        plain = panel.draw(shown)
        assert plain.shape[1] == 640  # small pictures are enlarged
        panel.click(4 * 80 + 3, 4 * 60 + 3)
        assert panel.selected == shown.segmentation.ids[60, 80]
        chosen = panel.draw(shown)
        panel.selected = None
        assert (chosen[:480] != panel.draw(shown)[:480]).any()
        panel.click(9999, 5)
        assert panel.selected is None
        (one,) = loop.status.objects
        mask = newest(loop).scene.mask(one["number"])
        np.testing.assert_array_equal(
            mask, shown.segmentation.ids == shown.segmentation.ids[60, 80]
        )
        y, x = np.argwhere(~mask)[0]
        panel.click(4 * int(x), 4 * int(y), add=True)
        assert newest(loop).scene.mask(one["number"])[y, x]
        panel.click(4 * int(x), 4 * int(y), take=True)
        assert not newest(loop).scene.mask(one["number"])[y, x]
        assert panel.draw(newest(loop)).shape[0] > plain.shape[0]  # a line tells of it
        panel.press("f")
        assert loop.status.objects == []
        panel.press("q")
        assert panel.closed
    assert len(list(tmp_path.iterdir())) == 2


def test_window_without_a_display_is_refused_with_a_way_out(monkeypatch, capsys):
    """In a process of its own: OpenCV would take ours down."""
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(ConfigError, match=r"no window can be opened \(.*without --window there"):
        check_display()
    assert main(["preview", "demo", "--window"]) == 2
    assert capsys.readouterr().err.startswith("error: --window: no window can be opened")
