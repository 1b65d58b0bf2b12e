"""Pixels to planes: L*a*b* colour, luma and gradient. Knows OpenCV's types and orders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import features as kernels
from aaams_stream.kernels.common import LANES
from aaams_stream.kernels.records import Response

Pixel = TypeVar("Pixel", np.uint8, np.float32)

FAR = np.float32(1e4)  # the colour of padding: too far from any pixel to carry weight
_BACKDROP = 0.5  # transparent pixels are seen over mid-grey
# sRGB to XYZ under D65; divided by its sums, white is (1, 1, 1) and grey has no hue.
_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
_MATRIX = (_XYZ / _XYZ.sum(axis=1, keepdims=True)).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Picture:
    """One frame at the size at which it is segmented."""

    planes: NDArray[np.float32]  # (3, h, pitch) L*a*b*
    smooth: NDArray[np.float32]  # (3, h, w) less noisy: what is compared over time
    gradient: NDArray[np.float32]  # (h, w) how much of an edge each pixel is
    half_luma: NDArray[np.uint8]  # of the frame itself, for flow; empty for a single image

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        h, w = self.gradient.shape
        return h, w


_NO_LUMA = np.zeros((0, 0), np.uint8)


def picture(
    rgb: NDArray[np.uint8] | NDArray[np.uint16], luma: NDArray[np.uint8] = _NO_LUMA
) -> Picture:
    """Return the planes of an image (h, w, 3); luma: of the frame it was scaled from."""
    planes = lab_planes(rgb)
    smooth = smoothed(planes, rgb.shape[1])
    return Picture(planes, smooth, gradient_magnitude(smooth), luma)


def painted(picture: Picture, outside: NDArray[np.bool_]) -> Picture:
    """Return a picture whose `outside` (h, w) looks like nothing there is; edges stay."""
    planes, smooth = picture.planes.copy(), picture.smooth.copy()
    planes[:, :, : outside.shape[1]][:, outside] = FAR
    smooth[:, outside] = FAR
    return replace(picture, planes=planes, smooth=smooth)


def as_rgb(image: Any) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """Check an image and return it as (h, w, 3): grey is spread, alpha laid over mid-grey.

    Takes uint8 or uint16 of shape (h, w), (h, w, 1), (h, w, 3) or (h, w, 4), RGB order.
    """
    if isinstance(image, (str, PurePath)):
        raise ValueError(
            f"an image must be an array, got the path {str(image)!r}; read the file first: "
            f"aaams_stream.read_image({str(image)!r})"
        )
    pixels = np.asarray(image)
    if pixels.dtype not in (np.uint8, np.uint16):
        raise ValueError(
            f"an image must be uint8 or uint16, got {pixels.dtype}; scale values in 0..1 by 255 "
            "and cast them"
        )
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] not in (3, 4)):
        raise ValueError(
            f"an image must have shape (h, w), (h, w, 3) or (h, w, 4), got {pixels.shape}"
        )
    if pixels.size == 0:
        raise ValueError(f"an image must have at least one pixel, got shape {pixels.shape}")
    if pixels.ndim == 2:
        return np.repeat(pixels[:, :, None], 3, axis=2)
    if pixels.shape[2] == 4:
        top = np.iinfo(pixels.dtype).max
        alpha = pixels[:, :, 3:].astype(np.float32) / top
        blended = pixels[:, :, :3] * alpha + (1 - alpha) * (_BACKDROP * top)
        return np.rint(blended).astype(pixels.dtype)
    return pixels


def lab_planes(rgb: NDArray[np.uint8] | NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return L*a*b* planes (3, h, pitch) float32, L in 0..100, rows padded to whole lanes.

    rgb (h, w, 3) is sRGB. OpenCV's own conversions interpolate in a table: the 8-bit one is off by
    up to 2.8, the float one by .3 and in twice the time.
    """
    h, w, _ = rgb.shape
    planes = np.empty((3, h, -(-w // LANES) * LANES), np.float32)
    response = RESPONSE if rgb.dtype == np.uint8 else Response(_light(65535), _MATRIX)
    kernels.levels_to_lab(np.require(rgb, requirements=["C", "W"]), response, FAR, planes)
    return planes


def lab_colours(colours: NDArray[Any]) -> NDArray[np.float64]:
    """Return the L*a*b* of a few colours (n, 3), sRGB from 0 to 255, by the formula."""
    level = np.asarray(colours, np.float64) / 255
    linear = np.where(level <= 0.04045, level / 12.92, ((level + 0.055) / 1.055) ** 2.4)
    ratio = linear @ _MATRIX.T.astype(np.float64)
    root = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio * (29 / 6) ** 2 / 3 + 4 / 29)
    x, y, z = root.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


def _light(top: int) -> NDArray[np.float32]:
    """Return the linear light, 0 to 1, of the sRGB levels from 0 to `top`."""
    level = np.arange(top + 1) / top
    curve = ((level + 0.055) / 1.055) ** 2.4
    return np.where(level <= 0.04045, level / 12.92, curve).astype(np.float32)


RESPONSE = Response(_light(255), _MATRIX)  # of 8-bit pictures


def smoothed(planes: NDArray[np.float32], width: int) -> NDArray[np.float32]:
    """Return the planes (3, h, w) at a scale of one pixel, without their padding."""
    smooth = np.empty((3, planes.shape[1], width), np.float32)
    for plane, out in zip(planes, smooth, strict=True):
        cv2.GaussianBlur(plane[:, :width], (5, 5), 1.0, dst=out, borderType=cv2.BORDER_REFLECT)
    return smooth


def gradient_magnitude(smooth: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the length (h, w) of the colour gradient of smoothed planes, L*a*b* per pixel."""
    magnitude = np.empty(smooth.shape[1:], np.float32)
    kernels.gradient_magnitude(smooth, magnitude)
    return magnitude


def half_luma(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the luma in which optical flow is sought, at half the resolution of a frame."""
    return halved(np.asarray(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), np.uint8))


def halved(plane: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a plane (h, w) at half its resolution."""
    h, w = plane.shape
    half = ((w + 1) // 2, (h + 1) // 2)
    return np.asarray(cv2.resize(plane, half, interpolation=cv2.INTER_AREA), np.uint8)


def resized(picture: NDArray[Pixel], shape: tuple[int, int]) -> NDArray[Pixel]:
    """Return a picture (h, w) or (h, w, 3), uint8 or float32, at another `shape` (h, w)."""
    if picture.shape[:2] == shape:
        return picture
    # down to half the size two pixels a side are all there is to mix, in a sixth of the time
    smaller = 4 * shape[0] * shape[1] < picture.shape[0] * picture.shape[1]
    way = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, shape[::-1], interpolation=way), picture.dtype)
