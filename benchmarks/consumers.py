"""What consumers cost: the tables of a frame, their room in a volume, and every export.

Segments a clip of 640x480 with 300 segments wanted, and tells which share of the segmenter's CPU
went into the segment table and the adjacency, beside the same tables computed with NumPy; how many
bytes a frame each part of the volume takes; and how long each export of it lasts.
"""

from __future__ import annotations

import argparse
import functools
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aaams_stream import Params, open_volume, segment_video, store
from aaams_stream.errors import AaamsError
from aaams_stream.export import FORMATS, Selection, export_volume

SIZE = (640, 480)
CELL = 32  # pixels: 300 cells a frame
SETTLED = 10  # frames that are not timed


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 on a problem the user can fix."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--clip", help="a video; without one, a mosaic passes by")
    parser.add_argument("--frames", type=int, default=300, help="of the volume (300)")
    parser.add_argument("--timed", type=int, default=40, help="of them for the tables (40)")
    args = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as folder:
            volume = make_volume(Path(folder), args.clip, args.frames)
            rows = int(volume.offsets("segments")[-1])
            print(
                f"{volume.frame_count} frames of {volume.width}x{volume.height}, "
                f"{rows / volume.frame_count:.0f} segments a frame, {len(volume.tracks)} tracks"
            )
            time_tables(volume, args.timed)
            weigh(volume)
            time_exports(volume, Path(folder))
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def make_volume(folder: Path, clip: str | None, frames: int) -> Any:
    """Write the volume that is exported, with its pictures."""
    path = folder / "volume.zarr"
    if clip is not None:
        segment_video(clip, path, size=SIZE, segments=300, duration=frames / 25, with_video=True)
        return open_volume(path)
    import cv2

    (folder / "frames").mkdir()
    for t, rgb in enumerate(passing(frames)):
        cv2.imwrite(str(folder / "frames" / f"{t:05d}.png"), rgb[:, :, ::-1])
    segment_video(folder / "frames", path, segments=300, with_video=True)
    return open_volume(path)


def passing(frames: int) -> Iterator[NDArray[np.uint8]]:
    """Yield a window that wanders over a mosaic, with noise of its own in every frame."""
    width, height = SIZE
    rng = np.random.default_rng(0)
    colours = rng.integers(0, 256, (20, 26, 3))
    scene = colours.repeat(CELL, axis=0).repeat(CELL, axis=1)
    for t in range(frames):
        y, x = int(40 + 39 * np.sin(t / 31)), int(80 + 79 * np.sin(t / 53))
        window = scene[y : y + height, x : x + width]
        noise = rng.normal(0, 2, window.shape)
        yield np.clip(np.rint(window + noise), 0, 255).astype(np.uint8)


def time_tables(volume: Any, frames: int) -> None:
    """Print the share of the segmenter's CPU that goes into the tables."""
    from aaams_stream.core import features
    from aaams_stream.core.segmenter import Segmenter
    from aaams_stream.core.stopwatch import stopwatch
    from aaams_stream.jit import compile_ahead

    compile_ahead()
    watch = functools.partial(stopwatch, now=time.process_time)
    params = Params().updated({"stream": {"segments": 300}})
    segmenter = Segmenter(params, watch=watch)
    spent, whole, numpy_way = [], [], []
    for t in range(min(frames, volume.frame_count)):
        rgb = volume.video[t]
        begun = time.process_time()
        result = segmenter.step(rgb)
        whole.append(time.process_time() - begun)
        spent.append(result.stats["table"])
        lab = features.lab_planes(rgb)[:, :, : rgb.shape[1]]
        begun = time.process_time()
        tables_in_numpy(result.ids, lab)
        numpy_way.append(time.process_time() - begun)
    ours, all_of_it, theirs = (
        1e3 * float(np.median(part[SETTLED:])) for part in (spent, whole, numpy_way)
    )
    print(
        f"tables: {ours:.1f} ms CPU of {all_of_it:.1f} a frame, {ours / all_of_it:.1%}; "
        f"with NumPy {theirs:.1f} ms"
    )


def tables_in_numpy(ids: NDArray[np.uint32], lab: NDArray[np.float32]) -> None:
    """Measure areas, centroids, colours, boxes and contacts the way one would by hand."""
    names, rows = np.unique(ids, return_inverse=True)
    rows = rows.reshape(-1)
    area = np.bincount(rows)
    y, x = np.divmod(np.arange(ids.size), ids.shape[1])
    for values in (x, y, *lab.reshape(3, -1), *(lab.reshape(3, -1) ** 2)):
        np.bincount(rows, values) / area
    for values in (x, y):
        np.minimum.at(np.full(len(names), ids.size), rows, values)
        np.maximum.at(np.zeros(len(names), int), rows, values)
    labels = rows.reshape(ids.shape)
    for one, other, left, right in (
        (labels[:, 1:], labels[:, :-1], lab[:, :, 1:], lab[:, :, :-1]),
        (labels[1:], labels[:-1], lab[:, 1:], lab[:, :-1]),
    ):
        edge = one != other
        pairs = np.sort(np.stack([one[edge], other[edge]]), axis=0)
        _, where = np.unique(pairs[0] * len(names) + pairs[1], return_inverse=True)
        np.bincount(where, np.linalg.norm(left[:, edge] - right[:, edge], axis=0))


def weigh(volume: Any) -> None:
    """Print the bytes a frame of each part of the volume."""
    sizes = {}
    for part in ("labels", "segments", "adjacency", "events", "tracks"):
        files = (file for file in (volume.path / part).rglob("*") if file.is_file())
        sizes[part] = sum(file.stat().st_size for file in files) / volume.frame_count
    print("bytes a frame: " + ", ".join(f"{part} {size:.0f}" for part, size in sizes.items()))


def time_exports(volume: Any, folder: Path) -> None:
    """Print the wall time of each export; indexed PNG gets as many ids as it holds."""
    for name, form in FORMATS.items():
        selection = Selection()
        if name == "davis-png":
            lives = np.sort(volume.tracks["frames"])[::-1]
            selection = Selection(min_life=int(lives[255]) + 1 if len(lives) > 255 else 0)
        target = folder / f"{name}{form.suffix or ''}"
        begun = time.perf_counter()
        export_volume(store.open_volume(volume.path), name, target, selection)
        print(f"export {name}: {time.perf_counter() - begun:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
