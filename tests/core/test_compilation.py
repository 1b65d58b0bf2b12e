"""Compiled code: one signature for each kernel, and the same results as without it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

compiled = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled"
)

DIGEST = """
import hashlib
import numpy as np
from aaams_stream.params import Params
from aaams_stream.core.segmenter import Segmenter
segmenter = Segmenter(Params().updated({"stream": {"segments": 6}}))
for t in range(3):
    rgb = np.random.default_rng(t).normal(0, 2, (10, 18, 3)) + (60, 90, 160)
    rgb[3:7, 4 + t : 9 + t] += (140, -30, -110)
    ids = segmenter.step(np.rint(rgb).astype(np.uint8)).ids
    print(hashlib.sha256(ids.tobytes()).hexdigest(), len(np.unique(ids)))
"""


def run_python(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@compiled
def test_images_and_streams_have_their_kernels_compiled_for_one_signature_only():
    code = """
import numpy as np
from aaams_stream import segment_image
from aaams_stream.jit import STREAM_FILES, kernels_of
from aaams_stream.core.levels import levels_of_frame
from aaams_stream.core.live_levels import LiveLevels
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.params import Params
rng = np.random.default_rng(0)
for shape in ((20, 33, 3), (40, 48), (90, 80, 3)):  # the last one is segmented at a smaller size
    segmenter = Segmenter()
    noise = rng.integers(0, 255, shape, np.uint8)
    live = LiveLevels(shape[:2], Params())
    for frame in (noise, noise, np.roll(noise, 1, 1), 255 - noise, noise[::-1, ::-1]):
        result = segmenter.step(frame)
        levels_of_frame(result)
        live.update(result)
        live.groups(5)
    segment_image(noise)
for file in STREAM_FILES:
    for kernel in kernels_of(file):
        if len(kernel.signatures) > 1:
            print(kernel.py_func.__name__, kernel.signatures)
"""
    assert run_python(code) == ""


@compiled
def test_without_compilation_a_stream_has_the_same_ids():
    expected = run_python(DIGEST)
    assert expected.split()[1::2] == ["2", "2", "2"]
    assert run_python(DIGEST, NUMBA_DISABLE_JIT="1") == expected


@compiled
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc fills memory on demand")
def test_results_do_not_depend_on_what_memory_held_before():
    """What is allocated is filled with one byte or another: reading it would show."""
    code = """
import hashlib
from aaams_stream.core.segmenter import Segmenter
from aaams_stream.source.demo import demo_frame
segmenter = Segmenter()
for t in (0, 2, 4, 20, 21, 60):
    result = segmenter.step(demo_frame(t).rgb)
    for table in (result.ids, result.segments, result.adjacency):
        print(hashlib.sha256(table.tobytes()).hexdigest())
for name, array in segmenter.state.to_arrays().items():
    print(name, hashlib.sha256(array.tobytes()).hexdigest())
"""
    plain, *filled = (run_python(code, MALLOC_PERTURB_=byte) for byte in ("0", "90", "165"))
    assert filled == [plain, plain]
