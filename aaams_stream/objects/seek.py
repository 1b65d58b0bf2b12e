"""A lost object, sought in the whole frame."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from aaams_stream.objects.colours import colour_odds
from aaams_stream.objects.contacts import contacts_of
from aaams_stream.objects.memory import lose, remember
from aaams_stream.objects.witnesses import logit

if TYPE_CHECKING:
    from aaams_stream.objects.memory import Followed
    from aaams_stream.objects.tuning import TrackerTuning
    from aaams_stream.objects.view import View


def seek(known: Followed, view: View, tuning: TrackerTuning) -> Followed:
    """Look for a lost object by the names and colours of its parts.

    What was of the object by its id, or has its colours and not those around it, and hangs
    together, must be about as large as the object was. The farther away from where it was lost,
    the surer that must be.
    """
    rows = view.frame.segments
    odds = colour_odds(known.first, known.late, tuning).sum(axis=0)
    flat, bins = view.labels.reshape(-1), view.bins.reshape(-1)
    colour = np.bincount(flat, odds[bins], len(rows)) / np.maximum(view.area, 1)
    seen, share, along = known.recall(rows["id"])
    named = np.where(seen, logit(share, tuning.belief_margin), 0)
    away = np.hypot(*(view.centre - known.centre).T) / known.usual
    doubt = tuning.back_doubt + tuning.back_far * np.minimum(away / tuning.back_reach, 1)
    opinion = tuning.back_identity * named + tuning.back_colour * colour - doubt
    chosen = (opinion > 0) & (rows["id"] > 0)
    name = contacts_of(view.frame, np.arange(len(rows)), tuning).components(chosen)
    area = np.bincount(name[chosen], view.area[chosen], len(rows))
    votes = np.bincount(name[chosen], (opinion * view.area)[chosen], len(rows))
    usual = known.usual**2
    fits = (area >= tuning.back_least * usual) & (area <= tuning.back_most * usual) & (area > 0)
    if not fits.any():
        return lose(known, view)
    best = int(np.argmax(np.where(fits, votes, -1)))
    part = name == best
    belief = part[view.labels].astype(np.float32)
    mask = np.isin(view.frame.ids, rows["id"][part])
    found = remember(known, view, belief, mask, part.astype(np.float64), along, tuning)
    sure = 1 / (1 + np.exp(-votes[best] / area[best]))
    return dataclasses.replace(found, state="back", sure=float(sure))
