"""Colours of an object and of what is around it: histograms, blurred, of first and of late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from aaams_stream.kernels import tracker as kernels

if TYPE_CHECKING:
    from aaams_stream.objects.tuning import TrackerTuning

_FAR_STRIDE = 4  # pixels far away are sampled


@dataclass(frozen=True, slots=True)
class Colours:
    """Histograms of colour; each sums to 1."""

    object: NDArray[np.float64]  # (n,)
    around: NDArray[np.float64]  # (n,)

    def moved(self, seen: Colours, rate: float) -> Colours:
        """Return colours moved towards others."""
        return Colours(
            self.object + rate * (seen.object - self.object),
            self.around + rate * (seen.around - self.around),
        )


def count_colours(
    belief: NDArray[np.float32],
    bins: NDArray[np.int32],
    box: NDArray[np.int64],
    tuning: TrackerTuning,
) -> Colours:
    """Return the colours of the object and of what is around it; box: the surroundings."""
    inside, outside = np.zeros((2, kernels.BINS_L * kernels.BINS_AB**2))
    kernels.count_colours(belief, bins, box, tuning.far_weight, _FAR_STRIDE, inside, outside)
    return Colours(*(_smoothed(part, tuning.colour_blur) for part in (inside, outside)))


def colour_odds(first: Colours, late: Colours, tuning: TrackerTuning) -> NDArray[np.float64]:
    """Return the log odds (2, n) of each colour bin, by the colours of first and of late."""
    odds = [
        np.log((one.object + tuning.rare_object) / (one.around + tuning.rare_around))
        for one in (first, late)
    ]
    return np.clip(odds, -tuning.colour_limit, tuning.colour_limit)


def _smoothed(histogram: NDArray[np.float64], bins: float) -> NDArray[np.float64]:
    """Return a histogram blurred, so that near colours count too, and with a sum of 1."""
    values = histogram.reshape(kernels.BINS_L, kernels.BINS_AB, kernels.BINS_AB)
    mix = np.exp(-0.5 * (np.arange(int(3 * bins) + 2) / bins) ** 2)
    kernels.smooth_bins(values, mix / (2 * mix.sum() - mix[0]), np.empty_like(values))
    return np.asarray(histogram / max(histogram.sum(), 1e-12))
