"""The core as users call it: whichever way they enter, kernels are compiled ahead."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest

import aaams_stream
from aaams_stream.core import image, segmenter
from aaams_stream.run import compiled


@pytest.fixture(autouse=True)
def _tiny_segmenter():
    """Leave the real segmenter in its place."""


# Enters by one door after the other and tells what is behind each: what is written, and digests of
# what is returned. Says first whether all was compiled, and last how much was compiled here.
ENTER = """
import sys
from hashlib import sha256
import aaams_stream as aaams
from aaams_stream import jit
from aaams_stream.source.demo import demo_frame

def by_video(folder):
    aaams.segment_video("demo", folder + "/volume", size=(160, 120), duration=0.25)

def by_stream(folder):
    frames = aaams.stream("demo", size=(160, 120), duration=0.25)
    return [a for frame in frames for a in (frame.ids, frame.segments, frame.adjacency)]

def by_segmenter(folder):
    segmenter = aaams.Segmenter()
    return [segmenter.step(demo_frame(4 * t).rgb[::2, ::2]).segments for t in range(3)]

def by_image(folder):
    image = aaams.segment_image(demo_frame(0).rgb[::2, ::2])
    return [image.labels, image.modes, image.bandwidths, image.densities]

print(jit.stream_is_compiled())
for name in sys.argv[2:]:
    result = globals()["by_" + name](sys.argv[1])
    print(name, *(sha256(array.tobytes()).hexdigest() for array in result or ()), sep=" ")
kernels = [kernel for file in jit.STREAM_FILES for kernel in jit.kernels_of(file)]
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels))
"""


def test_compiled_names_compile_ahead(monkeypatch):
    asked = []
    monkeypatch.setattr(compiled, "compile_ahead", lambda: asked.append(1))
    monkeypatch.setattr("aaams_stream.core.image.segment_image", lambda *a, **k: len(asked))
    aaams_stream.Segmenter()
    assert len(asked) == 1
    assert aaams_stream.segment_image(None) == 2


def test_compiled_names_give_first_runs_at_once_the_same_bytes_as_every_later_one(tmp_path):
    """Though they find nothing compiled, whichever door they enter by."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    entered = {
        "first": ["segmenter", "video"],
        "second": ["image", "stream"],
        "later": ["video", "stream", "segmenter", "image"],
    }

    def enter(name):
        (tmp_path / name).mkdir()
        return subprocess.Popen(
            [sys.executable, "-c", ENTER, str(tmp_path / name), *entered[name]],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )

    told = {}
    for together in (["first", "second"], ["later"]):
        running = {name: enter(name) for name in together}
        for name, process in running.items():
            out, _ = process.communicate()
            assert process.returncode == 0
            compiled, *results, misses = out.splitlines()
            assert (compiled, misses) == (str(name == "later"), "0"), name
            told[name] = dict(line.partition(" ")[::2] for line in results)
    assert told["first"] | told["second"] == told["later"]
    assert len(told["later"]["stream"].split()) > 10
    folders = [tmp_path / name / "volume" for name in ("first", "later")]
    first, later = (
        {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}
        for folder in folders
    )
    assert len(first) > 10
    assert [name for name in first if first[name] != later.get(name)] == []
    assert first.keys() == later.keys()


def test_compiled_names_are_documented_and_called_as_the_core_is():
    for name in ("Segmenter", "segment_image"):
        door = getattr(compiled, name)
        behind = {"Segmenter": segmenter.Segmenter, "segment_image": image.segment_image}[name]
        assert door.__doc__ == behind.__doc__
        assert inspect.signature(door) == inspect.signature(behind)
