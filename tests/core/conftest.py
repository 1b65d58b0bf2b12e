"""What every test of the core lives under."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def compiled_ahead() -> None:
    """Have the kernels compiled by other processes, as the doors do for users, and loaded.

    Some tests compare this process with others, bit for bit. Others call a helper of kernels by
    itself: if that were loaded first, kernels loaded later would be linked to it instead of to
    their own copy, which may round differently.
    """
    from aaams_stream.jit import compile_ahead
    from aaams_stream.run.warmup import warm_stream

    compile_ahead()
    warm_stream()
