"""Draw the pictures of the README from the clip the package draws itself.

    python docs/draw_pictures.py [tutorial] [video] [levels] [segmentation] [modes] [preview]

Writes video.png, levels.png, segmentation.png, modes.png, preview.jpg and the pictures of the
tutorial beside this file, or those that are named. Needs the extra `plot`, and Playwright and
Chromium for preview.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from pathlib import Path
from shutil import which

import cv2
import numpy as np

from aaams_stream import (
    AAAMS,
    Params,
    Segmenter,
    open_volume,
    segment_image,
    segment_video,
)
from aaams_stream.draw.plots import plot_modes
from aaams_stream.draw.views import draw_boundaries, draw_view, mean_colours
from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.server import PreviewServer
from aaams_stream.source import Source, open_source
from aaams_stream.source.demo import POSTER, demo_frame

FOLDER = Path(__file__).resolve().parent
GAP = 8  # white pixels between panels


def draw_video() -> None:
    """Draw four frames of the demo clip over their identities."""
    segmenter = Segmenter()
    columns = []
    for t in range(76):
        rgb = demo_frame(t).rgb
        ids = segmenter.step(rgb).ids
        if t % 25 == 0:
            columns += [np.concatenate([rgb, draw_view(rgb, ids, "ids")]), None]
    gap = np.full((columns[0].shape[0], GAP, 3), 255, np.uint8)
    sheet = np.concatenate([gap if c is None else c for c in columns[:-1]], axis=1)
    small = cv2.resize(sheet, None, fx=0.6, fy=0.6, interpolation=cv2.INTER_AREA)
    path = FOLDER / "video.png"
    cv2.imwrite(str(path), small[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])
    print(f"{path.name}: {_kilobytes(path)} kB")


def draw_levels() -> None:
    """Draw a frame of the demo in its segments, and in 50 and 10 groups."""
    with tempfile.TemporaryDirectory() as folder:
        segment_video("demo", Path(folder, "demo.zarr"), with_video=True)
        volume = open_volume(Path(folder, "demo.zarr"))
        rgb, fine = demo_frame(POSTER).rgb, volume.ids[POSTER]
        panels = [draw_view(rgb, fine, "objects")]
        for count in (50, 10):
            groups = volume.at(segments=count).ids[POSTER]
            panels.append(draw_view(rgb, groups, "objects", fine=fine))
    gap = np.full((rgb.shape[0], GAP, 3), 255, np.uint8)
    row = np.concatenate([panels[0], gap, panels[1], gap, panels[2]], axis=1)
    path = FOLDER / "levels.png"
    cv2.imwrite(str(path), row[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])
    print(f"{path.name}: {len(np.unique(fine))} segments, {_kilobytes(path)} kB")


def draw_segmentation() -> None:
    """Draw a frame of the demo, a fine cut of its merge tree, and its segments by default."""
    rgb = demo_frame(POSTER).rgb
    result = segment_image(rgb)
    panels = [rgb]
    fine = result.tree.cut(segments=60)
    for labels in (fine, result.labels):
        panels.append(draw_boundaries(mean_colours(rgb, labels), labels))
    gap = np.full((rgb.shape[0], GAP, 3), 255, np.uint8)
    row = np.concatenate([panels[0], gap, panels[1], gap, panels[2]], axis=1)
    path = FOLDER / "segmentation.png"
    cv2.imwrite(str(path), row[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])
    print(f"{path.name}: {fine.max() + 1} and {result.count} segments, {_kilobytes(path)} kB")


def draw_modes() -> None:
    """Draw three long, thin clouds of points with the modes and bandwidths found in them."""
    rng = np.random.default_rng(1)
    clouds = []
    for centre, angle in (((0, 0), 0.3), ((2, 7), -0.2), ((13, 4), 1.4)):
        along, across = rng.normal(size=(2, 400)) * [[2.6], [0.45]]
        c, s = np.cos(angle), np.sin(angle)
        turned = np.stack([c * along - s * across, s * along + c * across], axis=1)
        clouds.append(np.array(centre) + turned)
    points = np.concatenate(clouds)
    model = AAAMS(bandwidth=1.0, epsilon=1.5, n_clusters=3).fit(points)
    path = FOLDER / "modes.png"
    plot_modes(points, model.labels_, model.modes_, model.bandwidths_, path)
    print(f"{path.name}: {len(model.modes_)} modes, {_kilobytes(path)} kB")


def draw_preview() -> None:
    """Take a picture of the live page, with the balloon of the demo chosen."""
    from playwright.sync_api import sync_playwright

    def reopen() -> Source:
        return open_source("demo")

    loop = LiveLoop(reopen(), Params.load("realtime"), fps=0, reopen=reopen)
    path = FOLDER / "preview.jpg"
    with (
        loop,
        PreviewServer(loop, Commands(loop, FOLDER)) as server,
        sync_playwright() as playwright,
    ):
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=which("chromium"), args=flags)
        page = browser.new_page(viewport={"width": 1040, "height": 700})
        page.goto(server.url)
        page.wait_for_selector("#curtain", state="hidden")
        while loop.wait(0, 0)[1].segmentation.time % 4 < 2.5:
            page.wait_for_timeout(20)
        page.click("#views >> text=Ids")
        frame = loop.wait(0, 0)[1]
        y, x = np.argwhere(demo_frame(round(24 * frame.segmentation.time) % 96).truth == 6).mean(0)
        box = page.locator("#picture").bounding_box()
        at = {"x": x / 320 * box["width"], "y": y / 240 * box["height"]}
        page.click("#picture", position=at)
        page.wait_for_timeout(700)
        page.screenshot(path=path, type="jpeg", quality=88)
        browser.close()
    print(f"{path.name}: {_kilobytes(path)} kB")


def _kilobytes(path: Path) -> int:
    return path.stat().st_size // 1000


def draw_tutorial() -> None:
    """Run the tutorial, and keep what it draws."""
    text = (FOLDER / "tutorial.md").read_text(encoding="utf-8")
    names: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
            exec(block, names)
        for drawn in Path(folder).glob("*.png"):
            path = FOLDER / f"tutorial_{drawn.name}"
            path.write_bytes(drawn.read_bytes())
            print(f"{path.name}: {_kilobytes(path)} kB")


PICTURES = {
    "tutorial": draw_tutorial,
    "video": draw_video,
    "levels": draw_levels,
    "segmentation": draw_segmentation,
    "modes": draw_modes,
    "preview": draw_preview,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
