"""Records of arrays that kernels take as one argument: numba compiles and caches named tuples.

Symmetric matrices are upper triangles: LL, La, Lb, aa, ab, bb and xx, xy, yy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Labels = NDArray[Any]  # int32, or uint32 where they are ids


class Scales(NamedTuple):
    """The numbers of the settings in the form in which kernels want them."""

    colour: np.float32  # 1/σ²
    space: np.float32
    epsilon_colour: np.float32  # ε²
    epsilon_space: np.float32
    floor_colour: np.float32  # ξ
    floor_space: np.float32
    adaptive: int  # members from which a cluster has a bandwidth of its own
    thin: int  # windows are read every so many rows


class Response(NamedTuple):
    """How the levels of a picture become colours."""

    light: Floats  # (n,) linear light, 0 to 1, of each sRGB level
    matrix: Floats  # (3, 3) RGB to XYZ, as shares of white


class Shapes(NamedTuple):
    """What is measured of segments, a row each, in the pixels of a frame."""

    area: NDArray[np.int64]  # (k,)
    perimeter: NDArray[np.int64]  # (k,)
    bbox: Ints  # (k, 4) x0, y0, x1, y1
    places: NDArray[np.float64]  # (k, 2) sums of x and y
    colours: NDArray[np.float64]  # (k, 6) sums of L, a, b, LL, aa, bb


class Pixels(NamedTuple):
    """The pixels of one frame."""

    planes: Floats  # (3, h, pitch) L*a*b*; padded to whole lanes with a colour too far to weigh
    density: Floats  # (h, w) ρ with the base bandwidth, 1 at its maximum
    start: Ints  # (h, w) the cluster each pixel began as
    owner: Ints  # (h, w) the cluster of each pixel
    adaptive: NDArray[np.uint8]  # (h, w) whether that cluster has a bandwidth of its own


class Clusters(NamedTuple):
    """The clusters on those pixels, a row each; rows of clusters that are gone mean nothing."""

    position: Floats  # (n, 5) L, a, b, x, y: where the cluster stands
    rho: Floats  # (n,) density there
    shift: Floats  # (n, 5) last shift
    bearing: Floats  # (n, 5) first shift of the pixel that began as it: for the merge check
    trajectory: Floats  # (n, 15) weight, mean (5), centred scatter of colour (6) and space (3)
    precision: Floats  # (n, 10) inverse bandwidth of colour (6) and space (3), 1/√det of both
    parent: Ints  # (n,) union-find: itself while a cluster lives
    members: Ints  # (n,)
    changed: NDArray[np.bool_]  # (n,) whether its bandwidth is out of date


class Transported(NamedTuple):
    """What clusters bring along from the frame before: columns of its tracks."""

    mode: Floats  # (k, 5)
    trajectory: Floats  # (k, 15)
    precision: Floats  # (k, 10)
    area: NDArray[np.int64]  # (k,)


class Motion(NamedTuple):
    """Where the pixels of a frame were in the one before."""

    flow: Floats  # (h, w, 2) from each pixel to where it was
    nearest: Ints  # (h, w) flat index of the pixel there, -1 from outside the picture
    gap: Floats  # (h, w) squared colour distance to what was there


class Before(NamedTuple):
    """What the frame before left of its pixels."""

    labels: Ints  # (h, w) rows of the track table
    smooth: Floats  # (3, h, w) L*a*b*, less noisy
    density: Floats  # (h, w)


class Prediction(NamedTuple):
    """What the frame before says about the pixels of this one."""

    flow: Floats  # (h, w, 2) from each pixel to where it was
    warped: Ints  # (h, w) label at that place, -1 from outside the picture
    kept: Ints  # (h, w) the same where the colour agrees, else negative
    density: Floats  # (h, w) density at that place


class Pairs(NamedTuple):
    """A table of pairs of labels, each with its sums; rows are in the order they are met.

    Kernels that fill one return the number of pairs, or -1 where there was too little room.
    """

    slots: Ints  # (c,) a hash table of rows, -1 where none is; c is a power of two
    first: Labels  # (c / 2,)
    second: Labels  # (c / 2,)
    sums: NDArray[np.float64]  # (c / 2, s)
