"""The live picture in a window of OpenCV, worked with keys and the mouse."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream.draw.views import LIVE_VIEWS
from aaams_stream.errors import AaamsError, ConfigError
from aaams_stream.live.board import GROUPS, OBJECT_COLOURS
from aaams_stream.live.commands import RefusedError

if TYPE_CHECKING:
    from aaams_stream.live import LiveFrame, LiveLoop, Status
    from aaams_stream.live.commands import Command, Commands

TITLE = "aaams-stream preview"
KEYS = (
    "v: next view    [ ]: opacity    - +: detail    space: pause    s: step    p: snapshot    "
    "r: record    q: quit    click: follow, with Shift: add, with Alt: take away    f: let go    "
    "m: save masks"
)
_PROBE = "import cv2; cv2.namedWindow('probe'); cv2.waitKey(1); cv2.destroyAllWindows()"
_PROBE_SECONDS = 20
_WAIT_MS = 15
_IDS_OPACITY = 0.55  # to begin with: their colours say nothing of the picture's
_LEAST_WIDTH = 560  # pixels: smaller pictures are enlarged by whole times
_LINE = 20  # pixels: the height of a line of text


def check_display() -> None:
    """Raise a ConfigError where no window can be opened.

    Another process tries it, because OpenCV ends the one that opens a window in vain.
    """
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(_no_window("opening one takes for ever")) from None
    if tried.returncode:
        told = tried.stderr.decode(errors="replace")
        headless = "not implemented" in told
        reason = "this OpenCV was built without windows" if headless else "there is no display"
        raise ConfigError(_no_window(reason))


def _no_window(reason: str) -> str:
    return f"--window: no window can be opened ({reason}); without --window there is a page instead"


class Panel:
    """What one person looks at, and what keys and clicks change."""

    def __init__(self, loop: LiveLoop, commands: Commands) -> None:
        self.view = LIVE_VIEWS[0]
        self.opacity = 1.0
        self.selected: int | None = None
        self.message = ""
        self.closed = False
        self._loop, self._commands = loop, commands

    def press(self, key: str) -> None:
        """Do what a key stands for."""
        status = self._loop.status
        wanted = status.wanted or status.segments
        commands: dict[str, Command] = {
            " ": {"do": "resume" if status.paused else "pause"},
            "s": {"do": "step"},
            "p": {"do": "snapshot", "view": self.view, "opacity": self.opacity},
            "r": {"do": "stop" if status.recording else "record"},
            "-": {"do": "detail", "segments": max(1, round(wanted / 1.25))},
            "+": {"do": "detail", "segments": round(wanted * 1.25) + 1},
            "m": {"do": "save"},
        }
        if status.objects:
            commands["f"] = {"do": "let go", "number": status.objects[-1]["number"]}
        if key == "q":
            self.closed = True
        elif key == "v":
            self.view = LIVE_VIEWS[(LIVE_VIEWS.index(self.view) + 1) % len(LIVE_VIEWS)]
            self.opacity = _IDS_OPACITY if self.view == "ids" else 1.0
        elif key in "[]":
            self.opacity = min(1.0, max(0.0, self.opacity + (0.1 if key == "]" else -0.1)))
        elif key in commands:
            self._run(commands[key])

    def click(self, x: int, y: int, *, add: bool = False, take: bool = False) -> None:
        """Follow the object under a pixel of the window, add it to one, or take it away."""
        shown = self._loop.wait(0, 0)[1]
        if shown is None:
            return
        found = shown.segmentation.ids
        h, w = found.shape
        x, y = x // _zoom(w), y // _zoom(w)
        if x >= w or y >= h:
            self.selected = None
            return
        if not found[y, x]:
            self.selected, self.message = None, "nothing is segmented there"
            return
        self.selected = int(found[y, x])
        groups = shown.groups(GROUPS) if self.view == "objects" and not take else found
        ids = [int(one) for one in np.unique(found[groups == groups[y, x]])]
        numbers = [] if shown.scene is None else [one.number for one in shown.scene.sightings]
        if (add or take) and numbers:
            command = {"do": "correct", "number": numbers[-1], "ids": ids, "inside": not take}
            self._run(command)
        elif shown.scene is None or not shown.scene.labels[y, x]:
            self._run({"do": "follow", "ids": ids})

    def _run(self, command: Command) -> None:
        try:
            answer = self._commands.run(command)
        except (RefusedError, AaamsError) as error:
            self.message = str(error)
        else:
            self.message = f"saved {answer['saved']}" if "saved" in answer else ""

    def draw(self, shown: LiveFrame | None) -> NDArray[np.uint8]:
        """Return the picture for the window with the figures below it, in RGB."""
        if shown is None:
            picture = np.zeros((self._loop.height, self._loop.width, 3), np.uint8)
        else:
            trails = self._loop.history.trails() if self.view == "motion" else None
            picture = shown.drawn(self.view, self.opacity, trails=trails)
        if shown is not None and self.selected is not None:
            mask = (shown.segmentation.ids == self.selected).astype(np.uint8)
            outline, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_NONE)
            cv2.drawContours(picture, outline, -1, (255, 255, 255), 2)
        for number, trail in self._loop.following.trails().items():
            way = np.array(trail, np.int32).reshape(-1, 1, 2)
            colour = OBJECT_COLOURS[(number - 1) % len(OBJECT_COLOURS)]
            for shade, thick in (((0, 0, 0), 4), (colour, 2)):
                cv2.polylines(picture, [way], False, shade, thick, cv2.LINE_AA)
        zoom = _zoom(picture.shape[1])
        picture = picture.repeat(zoom, axis=0).repeat(zoom, axis=1)
        lines = self._lines(self._loop.status)
        board = np.zeros((_LINE * len(lines) + 8, picture.shape[1], 3), np.uint8)
        for number, line in enumerate(lines):
            at = (8, _LINE * (number + 1) - 3)
            cv2.putText(
                board, line, at, cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 255), 1, cv2.LINE_AA
            )
        return np.concatenate([picture, board])

    def _lines(self, status: Status) -> list[str]:
        if status.phase == "starting":
            return ["getting ready; the first time this compiles for about a minute"]
        lines = [
            f"{status.fps:.1f} fps  {1000 * status.latency:.0f} ms  {status.segments} segments  "
            f"{status.warm:.0%} carried over  {status.dropped} left out"
        ]
        known = None if self.selected is None else self._loop.history.about(self.selected)
        if known is not None:
            lab = ", ".join(f"{value:.0f}" for value in known["lab"])
            lines.append(
                f"segment {known['id']}: {known['age']} frames old, {known['area']} px, Lab {lab}"
            )
        for one in status.objects:
            lines.append(f"object {one['number']}: {one['state']}, {one['area']} px")
        if status.waiting_for:
            lines.append(f"no frame for {status.silent:.0f} s: look after the {status.waiting_for}")
        if status.recording:
            lines.append(f"recording {status.recording}: {status.recorded} frames")
        return lines + [text for text in (status.trouble, self.message) if text]


def _zoom(width: int) -> int:
    return -(-_LEAST_WIDTH // width)


def run_window(loop: LiveLoop, commands: Commands) -> None:
    """Show the loop until the window is closed; on the main thread, as window systems want it."""
    panel = Panel(loop, commands)

    def mouse(event: int, x: int, y: int, flags: int, extra: object) -> None:
        if event == cv2.EVENT_LBUTTONDOWN:
            shift, alt = cv2.EVENT_FLAG_SHIFTKEY, cv2.EVENT_FLAG_ALTKEY
            panel.click(x, y, add=bool(flags & shift), take=bool(flags & alt))

    cv2.namedWindow(TITLE, cv2.WINDOW_AUTOSIZE | cv2.WINDOW_GUI_NORMAL)
    cv2.setMouseCallback(TITLE, mouse)
    try:
        while not panel.closed and loop.failure is None:
            picture = panel.draw(loop.wait(0, 0)[1])
            cv2.imshow(TITLE, cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))
            key = cv2.waitKey(_WAIT_MS)
            if key >= 0:
                panel.press(chr(key & 0xFF))
            if cv2.getWindowProperty(TITLE, cv2.WND_PROP_VISIBLE) < 1:
                panel.closed = True
    finally:
        cv2.destroyAllWindows()
