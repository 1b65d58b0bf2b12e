"""Tables of pairs of labels, such as segments that touch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels.records import Labels, Pairs


class Found(NamedTuple):
    """Pairs in the order in which they were met, and their sums."""

    first: Labels  # (n,)
    second: Labels  # (n,)
    sums: NDArray[np.float64]  # (n, s)


def find_pairs(
    scan: Callable[..., int],
    *arguments: Any,
    expected: int,
    kind: type[np.int32] | type[np.uint32] = np.int32,
    sums: int = 2,
) -> Found:
    """Run a kernel that fills a table of pairs, its last argument, with as much room as it takes.

    expected: about how many pairs there are; kind: the type of labels; sums: how many each has.
    """
    while True:
        half = 1 << max(5, expected.bit_length())
        pairs = Pairs(
            np.full(2 * half, -1, np.int32),
            np.empty(half, kind),
            np.empty(half, kind),
            np.zeros((half, sums)),
        )
        count = scan(*arguments, pairs)
        if count >= 0:
            return Found(pairs.first[:count], pairs.second[:count], pairs.sums[:count])
        expected = 4 * half
