"""Draw the pictures of the README and the site from the clip the package draws itself.

    python docs/draw_pictures.py [tutorial] [video] [concepts] [levels] [segmentation] [modes]
                                 [preview]

Writes video.png, concepts.png, levels.png, segmentation.png, modes.png, preview.jpg and the
pictures of the tutorial beside this file, or those that are named. Needs the extra `plot`, and
Playwright and Chromium for preview. Pictures of the gallery and of settings are drawn when the
site is built.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream import (
    AAAMS,
    Params,
    Volume,
    open_volume,
    segment_image,
    segment_video,
)
from aaams_stream.draw.plots import plot_modes
from aaams_stream.draw.views import draw_boundaries, draw_view, id_colours, mean_colours
from aaams_stream.live import LiveLoop
from aaams_stream.live.commands import Commands
from aaams_stream.live.server import PreviewServer
from aaams_stream.model import HIERARCHY_DTYPE, EventKind
from aaams_stream.run.warmup import warm_following
from aaams_stream.source import Source, open_source
from aaams_stream.source.demo import POSTER, demo_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = Path(__file__).resolve().parent
GAP = 8  # white pixels between panels


def draw_video() -> None:
    """Draw four frames of the demo over their supervoxels and over twelve groups of those."""
    with _demo() as volume:
        view = volume.at(segments=12)
        columns = []
        for t in (4, 32, 60, 88):
            rgb = demo_frame(t).rgb
            fine, groups = volume.ids[t], view.ids[t]
            drawn = [draw_view(rgb, fine, "ids"), draw_view(rgb, groups, "objects", fine=fine)]
            columns.append(_joined([rgb, *drawn], axis=0))
    small = cv2.resize(_joined(columns), None, fx=0.7, fy=0.7, interpolation=cv2.INTER_AREA)
    path = FOLDER / "video.png"
    cv2.imwrite(str(path), small[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])
    print(f"{path.name}: {_kilobytes(path)} kB")


def draw_concepts() -> None:
    """Draw frames of the demo, the lives of its longest tracks, and the tree that joins them."""
    import matplotlib.pyplot as plt

    with _demo() as volume:
        times = (4, 44, 84)
        figure = plt.figure(figsize=(9.6, 5.6), layout="constrained")
        grid = figure.add_gridspec(2, 4, height_ratios=(1, 1.25), width_ratios=(1, 1, 1, 0.7))
        for column, t in enumerate(times):
            panel = figure.add_subplot(grid[0, column])
            panel.imshow(draw_view(demo_frame(t).rgb, volume.ids[t], "ids", opacity=1.0))
            panel.set_title(f"frame {t}: segments", fontsize="medium")
            panel.axis("off")
        tracks, events = volume.tracks, volume.events
        order = _in_the_tree(volume, tracks, wanted=14)
        lives = figure.add_subplot(grid[1, :3])
        for row, track_id in enumerate(order):
            _draw_life(lives, row, track_id, volume, events)
        for t in times:
            lives.axvline(t, color="0.6", linewidth=0.8, linestyle=":", zorder=0)
        labels = [f"id {track_id}" for track_id in order]
        lives.set(xlabel="frame", xlim=(-1, volume.frame_count), yticks=range(len(order)))
        lives.set_yticklabels(labels, fontsize=7)
        lives.invert_yaxis()
        lives.set_title("tracks and their events", fontsize="medium")
        for kind, mark in _MARKS.items():
            lives.plot([], [], mark, color="black", label=kind.name.lower(), markersize=5)
        lives.legend(
            fontsize=7, ncol=5, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False
        )
        tree = figure.add_subplot(grid[1, 3], sharey=lives)
        _draw_tree(tree, volume, order)
    path = FOLDER / "concepts.png"
    figure.savefig(path, dpi=100)
    print(f"{path.name}: {_kilobytes(path)} kB")


_MARKS = {
    EventKind.BIRTH: ">",
    EventKind.SPLIT: "^",
    EventKind.MERGE: "v",
    EventKind.RETURN: "o",
    EventKind.DEATH: "|",
}


def _in_the_tree(volume: Volume, tracks: NDArray[Any], wanted: int) -> list[int]:
    """Return the tracks of most pixels, in an order in which the tree's branches do not cross."""
    from aaams_stream.store.layout import read_rows

    large = set(tracks["id"][np.argsort(tracks["volume"], kind="stable")[-wanted:]].tolist())
    members = {int(track_id): [int(track_id)] for track_id in tracks["id"]}
    count = volume.merge_count
    for row in read_rows(volume._root, "hierarchy", 0, count, HIERARCHY_DTYPE):
        members[int(row["survivor"])] += members.pop(int(row["absorbed"]))
    return [one for group in members.values() for one in group if one in large]


def _draw_life(panel: Axes, row: int, track_id: int, volume: Volume, events: NDArray[Any]) -> None:
    """Draw the frames in which a track is seen as a bar in its colour, and marks on it."""
    table = volume.table("segments")
    seen = table["frame"][table["id"] == track_id]
    colour = id_colours(np.array([[track_id]], np.uint32))[0, 0] / 255
    panel.broken_barh([(t, 1) for t in seen], (row - 0.36, 0.72), color=colour)
    for event in events[events["id"] == track_id]:
        kind = EventKind(event["kind"])
        if kind in _MARKS:
            panel.plot(event["frame"], row, _MARKS[kind], color="black", markersize=5)


def _draw_tree(panel: Axes, volume: Volume, order: list[int]) -> None:
    """Draw how the groups of some tracks are joined, with a cut through the tree."""
    from aaams_stream.store.layout import read_rows

    rows = read_rows(volume._root, "hierarchy", 0, volume.merge_count, HIERARCHY_DTYPE)
    place = {track_id: (float(y), 0.0) for y, track_id in enumerate(order)}
    for row in rows:
        survivor, absorbed, level = int(row["survivor"]), int(row["absorbed"]), float(row["level"])
        if absorbed not in place:
            continue
        if survivor not in place:
            place[survivor] = place.pop(absorbed)
            continue
        (y0, l0), (y1, l1) = place[survivor], place.pop(absorbed)
        panel.plot([l0, level, level, l1], [y0, y0, y1, y1], color="0.25", linewidth=1)
        place[survivor] = ((y0 + y1) / 2, level)
    cut = volume.level_at(segments=12)
    panel.axvline(cut, color="tab:red", linewidth=1)
    panel.text(cut, -0.9, " 12 groups", color="tab:red", fontsize=7)
    panel.set_xscale("symlog", linthresh=1.0)
    panel.set(xlabel="level", xlim=(0, None))
    panel.tick_params(labelleft=False, left=False)
    panel.set_title("the tree", fontsize="medium")
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)


@contextlib.contextmanager
def _demo() -> Iterator[Volume]:
    """Segment the demo; the volume lasts as long as it is used."""
    with tempfile.TemporaryDirectory() as folder:
        segment_video("demo", Path(folder, "demo.zarr"))
        yield open_volume(Path(folder, "demo.zarr"))


def _joined(panels: list[NDArray[np.uint8]], axis: int = 1) -> NDArray[np.uint8]:
    """Return panels side by side, or below each other, with a gap between."""
    shape = list(panels[0].shape)
    shape[axis] = GAP
    gap = np.full(shape, 255, np.uint8)
    pieces = [piece for panel in panels for piece in (panel, gap)]
    return np.concatenate(pieces[:-1], axis=axis)


def draw_levels() -> None:
    """Draw a frame of the demo in its segments, and in 20 and 10 groups."""
    with _demo() as volume:
        rgb, fine = demo_frame(POSTER).rgb, volume.ids[POSTER]
        panels = [draw_view(rgb, fine, "objects")]
        for count in (20, 10):
            groups = volume.at(segments=count).ids[POSTER]
            panels.append(draw_view(rgb, groups, "objects", fine=fine))
    path = FOLDER / "levels.png"
    cv2.imwrite(str(path), _joined(panels)[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])
    print(f"{path.name}: {len(np.unique(fine))} segments, {_kilobytes(path)} kB")


def draw_segmentation() -> None:
    """Draw a frame of the demo, a fine cut of its merge tree, and its segments by default."""
    rgb = demo_frame(POSTER).rgb
    result = segment_image(rgb)
    panels = [rgb]
    fine = result.tree.cut(segments=60)
    for labels in (fine, result.labels):
        panels.append(draw_boundaries(mean_colours(rgb, labels), labels))
    path = FOLDER / "segmentation.png"
    cv2.imwrite(str(path), _joined(panels)[:, :, ::-1], [cv2.IMWRITE_PNG_COMPRESSION, 9])
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
    """Take a picture of the live page, following the balloon of the demo."""
    from playwright.sync_api import sync_playwright

    def reopen() -> Source:
        return open_source("demo")

    warm_following()
    loop = LiveLoop(reopen(), Params.load("realtime"), fps=0, reopen=reopen)
    path = FOLDER / "preview.jpg"
    with (
        loop,
        PreviewServer(loop, Commands(loop, FOLDER)) as server,
        sync_playwright() as playwright,
    ):
        flags = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=which("chromium"), args=flags)
        page = browser.new_page(viewport={"width": 1160, "height": 760})
        page.goto(server.url)
        page.wait_for_selector("#curtain", state="hidden")
        while not 0.3 < loop.wait(0, 0)[1].segmentation.time % 4 < 0.8:
            page.wait_for_timeout(20)
        loop.pause()
        page.wait_for_timeout(500)
        frame = loop.wait(0, 0)[1]
        y, x = np.argwhere(demo_frame(round(24 * frame.segmentation.time) % 96).truth == 6).mean(0)
        box = page.locator("#picture").bounding_box()
        at = {"x": x / 320 * box["width"], "y": y / 240 * box["height"]}
        page.click("#picture", position=at)
        page.wait_for_selector("#objects li")
        loop.resume()
        page.wait_for_timeout(1600)  # its way of late
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
    "concepts": draw_concepts,
    "levels": draw_levels,
    "segmentation": draw_segmentation,
    "modes": draw_modes,
    "preview": draw_preview,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]()
