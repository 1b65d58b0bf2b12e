"""The tree over tracks as its definition reads: all pairs are scored again after every merge."""

from __future__ import annotations

from typing import Any

import numpy as np

from support import reference

Array = np.ndarray


def series_of(series: Any, row: int) -> dict[int, Array]:
    """Return the entries of a track by their time."""
    found, e = {}, series.head[row]
    while e >= 0:
        found[int(series.time[e])] = series.sums[e].copy()
        e = series.following[e]
    return found


def merges(groups: Any, links: Any, series: Any, nearness: Any) -> list[tuple[int, int, float]]:
    """Return survivor, absorbed and level of each merge of what touches."""
    known = {}
    for r, (moments, sums) in enumerate(zip(groups.moments, groups.sums, strict=True)):
        scatter = np.zeros((3, 3))
        scatter[np.triu_indices(3)] = moments[5:]
        scatter += np.triu(scatter, 1).T
        known[r] = {
            "volume": moments[0],
            "first": moments[0] * moments[2:5],
            "second": scatter + moments[0] * np.outer(moments[2:5], moments[2:5]),
            "texture": sums[0],
            "outline": sums[1],
            "series": series_of(series, r),
        }
    touching = {
        (int(a), int(b)): np.array([length, contrast])
        for a, b, length, contrast in zip(*links, strict=True)
    }
    found: list[tuple[int, int, float]] = []
    highest = 0.0
    while touching:
        scores = {
            pair: level(known[pair[0]], known[pair[1]], contact, nearness)
            for pair, contact in touching.items()
        }
        (a, b) = min(scores, key=lambda pair: (scores[pair], pair))
        highest = max(highest, scores[a, b])
        found.append((a, b, highest))
        known[a] = united(known[a], known.pop(b), touching.pop((a, b))[0])
        for other in list(known):
            pair = (min(b, other), max(b, other))
            if pair in touching:
                new = (min(a, other), max(a, other))
                touching[new] = touching.get(new, 0) + touching.pop(pair)
    return found


def united(a: dict[str, Any], b: dict[str, Any], length: float) -> dict[str, Any]:
    """Return two groups as one."""
    both = {key: a[key] + b[key] for key in a if key != "series"}
    both["outline"] -= 2 * length
    both["series"] = {
        t: a["series"].get(t, 0) + b["series"].get(t, 0) for t in {*a["series"], *b["series"]}
    }
    return both


def level(a: dict[str, Any], b: dict[str, Any], contact: Array, nearness: Any) -> float:
    """Return how far apart two groups are."""

    def colours(one: dict[str, Any]) -> tuple[Array, Array]:
        mean = one["first"] / one["volume"]
        return mean, one["second"] / one["volume"] - np.outer(mean, mean) + floor

    def unrest(one: dict[str, Any]) -> float:
        squares = [((s[1:] / s[0]) ** 2).sum() for s in one["series"].values()]
        return float(np.mean(squares))

    floor = nearness.floor * np.eye(3)
    distance = reference.bhattacharyya(*colours(a), *colours(b))
    volume = 1 / (1 / a["volume"] + 1 / b["volume"]) / nearness.pixels
    gaps = []
    for t in sorted(a["series"].keys() & b["series"].keys()):
        one, other = a["series"][t], b["series"][t]
        least = min(one[0], other[0])
        gap = ((one[1:] / one[0] - other[1:] / other[0]) ** 2).sum()
        gaps.append(gap * least / (least + nearness.sure_area))
    gap = float(np.mean(gaps)) if gaps else 0.0
    shared = min(contact[0] / max(min(a["outline"], b["outline"]), 1.0), 1.0)
    grain = [one["texture"] / one["volume"] + nearness.texture_floor for one in (a, b)]
    stirred = np.log((1 + unrest(a)) / (1 + unrest(b)))
    seen = min(len(a["series"]), len(b["series"])) / nearness.times
    return float(
        distance**nearness.colour_power
        * (volume / nearness.size_unit) ** nearness.size_power
        * (contact[1] / contact[0] / nearness.edge_unit) ** nearness.edge_power
        * (1 + gap / nearness.motion_sq) ** nearness.motion_power
        * (shared + nearness.contact_floor) ** -nearness.contact_power
        * (1 + abs(np.log(grain[0] / grain[1]))) ** nearness.texture_power
        * (1 + abs(stirred)) ** nearness.unrest_power
        * seen**nearness.seen_power
    )
