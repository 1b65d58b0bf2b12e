"""A number of segments that is wanted is held through a clip, where the picture has as many."""

from __future__ import annotations

import numpy as np

from aaams_stream import Params, Segmenter

TILE = (3, 4)  # height and width: hardly more pixels than `post.min_size`
HEIGHT, WIDTH, REACH = 120, 160, 40  # and how far the picture goes on beyond its right side
FINE = 110  # columns of tiles that small, beside large ones


def crowd(frames, drift=0.4, noise=3.0):
    """Return frames of small tiles that slide by parts of a pixel, so that they gain and lose."""
    rng = np.random.default_rng(3)
    ground = mosaic(rng, TILE)
    ground[:, FINE:] = mosaic(rng, (30, 30))[:, FINE:]
    found = []
    for index in range(frames):
        whole, part = divmod(drift * index, 1)
        at = int(whole)
        rgb = (1 - part) * ground[:, at : at + WIDTH] + part * ground[:, at + 1 : at + 1 + WIDTH]
        rgb = rgb + np.random.default_rng((3, index)).normal(0, noise, rgb.shape)
        found.append(np.clip(np.rint(rgb), 0, 255).astype(np.uint8))
    return found


def mosaic(rng, tile):
    """Return a picture of tiles, each of a colour of its own."""
    rows, columns = HEIGHT // tile[0] + 1, (WIDTH + REACH) // tile[1] + 1
    colours = rng.integers(40, 216, (rows, columns, 3)).astype(np.float64)
    return colours.repeat(tile[0], 0).repeat(tile[1], 1)[:HEIGHT, : WIDTH + REACH]


def test_many_small_segments_live_on_while_they_lose_pixels_and_lost_ones_are_made_up_for():
    wanted = 900
    segmenter = Segmenter(Params().updated({"stream": {"segments": wanted, "scale": 1.0}}))
    counts = [len(segmenter.step(rgb).segments) for rgb in crowd(25)]
    assert counts[0] > 0.95 * wanted
    assert np.mean(counts[9:]) > 0.75 * wanted  # .65 and falling where small ones die
