"""What is run once so that kernels are there when they are needed."""

from __future__ import annotations

import pytest

from aaams_stream import jit, kernels
from aaams_stream.run import warmup


@pytest.fixture(autouse=True)
def _tiny_segmenter():
    """Leave the real segmenter in its place."""


def test_stream_calls_are_those_that_a_stream_has_compiled(compiled):
    calls = warmup.stream_calls()
    assert len(calls) >= 40  # of the 46 that Python calls
    for kernel, signature in calls:
        assert signature in kernel.signatures, kernel.py_func.__name__
    for call in calls:  # and they are kernels again
        module = getattr(kernels, call.file)
        assert getattr(module, call.kernel.py_func.__name__) is call.kernel


@pytest.mark.parametrize("frames", [0, 1])
def test_warm_stream_asks_before_every_frame_whether_to_stop(compiled, frames):
    answers = iter([False] * frames + [True])
    warmup.warm_stream(should_stop=lambda: next(answers))
    assert next(answers, None) is None


def test_warm_following_leaves_nothing_of_following_to_compile(compiled):
    """Else every preview would start a process to compile it."""
    warmup.warm_following()
    assert jit.are_compiled(jit.FOLLOWING_FILES)


def test_warm_stream_leaves_nothing_of_a_stream_to_compile(compiled):
    """Else every run would say that it compiles, and start processes to do so."""
    assert jit.stream_is_compiled()
