"""What an installed package must do, wherever it is installed: run away from the tree."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import entry_points, version
from pathlib import Path

import numpy as np

import aaams_stream
from aaams_stream import Params, Segmenter, open_volume, pool, segment_image


def command(*words: object) -> str:
    """Run a command; return what it prints."""
    run = subprocess.run(
        [Path(sys.executable).with_name("aaams-stream"), *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def main() -> None:
    """Segment a little of everything, read it back, export it."""
    assert version("aaams-stream") == aaams_stream.__version__
    assert "site-packages" in aaams_stream.__file__, aaams_stream.__file__
    Params.load("realtime")
    [manifest] = entry_points(group="napari.manifest", name="aaams-stream")
    module, _, name = manifest.value.partition(":")
    assert Path(aaams_stream.__file__).parent.parent.joinpath(*module.split("."), name).is_file()
    assert aaams_stream.__version__ in command("doctor")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "demo.zarr")
        words = ("--duration", "0.5", "--size", "160x120", "--with-video", "--quiet")
        command("segment", "demo", "-o", path, *words)
        volume = open_volume(path)
        assert volume.complete
        assert volume.shape == (12, 120, 160)
        segmenter = Segmenter()
        for t in range(3):
            rgb = volume.video[t]
            frame = segmenter.step(rgb)
            np.testing.assert_array_equal(frame.ids, volume.ids[t])
        assert pool(frame.ids, rgb).shape == (len(frame.segments), 3)
        assert segment_image(rgb).labels.shape == rgb.shape[:2]
        for form, output in (("csv", "tables"), ("coco", "masks.json"), ("geff", "graph")):
            command("export", path, "--to", form, "-o", Path(folder, output), "--quiet")
        command("render", path, "-o", Path(folder, "film.mp4"), "--at", "5", "--quiet")
        command("info", path)
    numbers = (
        f"{name} {version(name)}" for name in ("numpy", "numba", "opencv-python", "av", "zarr")
    )
    print(f"Python {sys.version.split()[0]}: passed with", ", ".join(numbers))


if __name__ == "__main__":
    main()
