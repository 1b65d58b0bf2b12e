"""The names of the images that a volume was made from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from aaams_stream.model import same_source
from aaams_stream.source.open import images_of
from aaams_stream.source.reader import DEFAULT_RATE

if TYPE_CHECKING:
    from aaams_stream.store import Volume


def picture_names(volume: Volume) -> list[str] | None:
    """Return the name of the image that each frame was, below the folder they share.

    None where the volume was not made from images, or they are no longer as they were.
    """
    found = images_of(volume.source)
    if found is None or not same_source(volume.header.fingerprint, found[1]):
        return None
    images = [os.path.abspath(path) for path in found[0]]
    folder = os.path.commonpath([os.path.dirname(path) for path in images])
    # an image keeps its place in time, also behind one that did not decode
    places = np.rint(volume.times * float(DEFAULT_RATE)).astype(int)
    return [os.path.relpath(images[place], folder) for place in places]
