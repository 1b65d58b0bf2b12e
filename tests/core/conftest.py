"""What every test of the core lives under."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def compiled_ahead() -> None:
    """Have the kernels compiled by other processes, as the doors do for users.

    Some tests compare this process with others, bit for bit.
    """
    from aaams_stream.jit import compile_ahead

    compile_ahead()
