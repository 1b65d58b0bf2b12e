"""The tree over tracks: groups that touch merge, closest first.

Rows of all arrays are tracks in the order of their ids. A group lives in the slot of one of its
members, the one with more neighbours, so that little is moved when two join.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from aaams_stream.kernels.common import (
    bhattacharyya,
    filled,
    find_root,
    heap_with_room,
    numbers,
    pop,
    push,
)


class Links(NamedTuple):
    """Pairs of tracks that touch, and the sums over all their contact."""

    first: Any  # (m,) int32, the lower one
    second: Any  # (m,) int32
    length: Any  # (m,) float64
    contrast: Any  # (m,) float64: times length


class Groups(NamedTuple):
    """What is known of groups, a row each; see `join_groups`."""

    moments: Any  # (k, 11) float64: volume twice, mean colour (3), its scatter (6)
    sums: Any  # (k, 5) float64: see TEXTURE and what follows
    unrest: Any  # (k,) float64: mean squared motion against the scene
    seen: Any  # (k,) float64: in how many moments of time


TEXTURE = 0  # variance of colour within segments, times volume
OUTLINE = 1  # perimeter, summed over frames
RIM = 2  # of that, what lies on the rim of the picture
CONTACT = 3  # of that, what touches other groups
CONTRAST = 4  # across that contact, times its length
LEAST = 1e-12  # of a difference that is not measurable


class Nearness(NamedTuple):
    """How far apart two groups are; see `LevelTuning`."""

    floor: Any  # added to variances of colour
    pixels: Any  # of the whole scene: of a frame, times frames
    colour_power: Any
    size_unit: Any
    size_power: Any
    edge_unit: Any
    edge_power: Any
    motion_sq: Any
    motion_power: Any
    sure_area: Any  # pixels in an entry of a series from which motion is half believed
    contact_floor: Any
    contact_power: Any
    texture_floor: Any
    texture_power: Any
    unrest_power: Any
    times: Any  # moments of time of the scene
    seen_power: Any
    growth: Any


# Columns of the table of nodes: tracks first, then a row for each merge.
VOLUME = 0
ENTRIES = 1  # moments of time in which it is seen
MOTION = 2  # against the scene: mean length over these
NODE_OUTLINE = 3
NODE_RIM = 4
NODE_COLUMNS = 5


class _Graph(NamedTuple):
    """Half-edges 2e and 2e + 1 of link e as linked lists, and links by the slots they join."""

    head: Any  # (k,) int32
    tail: Any  # (k,) int32
    following: Any  # (2m,) int32
    degree: Any  # (k,) int64: length of the list, dead ones counted
    ends: Any  # (m, 2) int32: slots, kept up to date
    dead: Any  # (m,) bool
    table: Any  # (c,) int32: links by their slots, -1 where none is; c is a power of two


@njit(cache=True, nogil=True, error_model="numpy")
def find_link(a, b, graph):
    """Return the place in the table of the link between two slots, or the free one it would take.

    With a < b or b < a alike.
    """
    if b < a:
        a, b = b, a
    table = graph.table
    ends = graph.ends
    mask = table.size - 1
    place = (np.int64(a) * 73856093 ^ np.int64(b) * 19349663) & mask
    while table[place] >= 0:
        e = table[place]
        p = min(ends[e, 0], ends[e, 1])
        q = max(ends[e, 0], ends[e, 1])
        if p == a and q == b:
            break
        place = (place + 1) & mask
    return place


@njit(cache=True, nogil=True, error_model="numpy")
def drop_link(place, graph):
    """Take a link out of the table; those that had to give way to it move up."""
    table = graph.table
    ends = graph.ends
    mask = table.size - 1
    gap = place
    at = place
    while True:
        at = (at + 1) & mask
        e = table[at]
        if e < 0:
            break
        a = np.int64(min(ends[e, 0], ends[e, 1]))
        b = np.int64(max(ends[e, 0], ends[e, 1]))
        home = (a * 73856093 ^ b * 19349663) & mask
        if ((at - home) & mask) >= ((at - gap) & mask):
            table[gap] = e
            gap = at
    table[gap] = -1


@njit(cache=True, nogil=True, error_model="numpy")
def build_graph(tracks, links):
    """Return the lists of half-edges of every track, and the table of links."""
    first = links.first
    second = links.second
    m = first.size
    size = 8
    while size < 2 * m:
        size *= 2
    ends = np.empty((m, 2), np.int32)
    graph = _Graph(
        filled(tracks, -1),
        filled(tracks, -1),
        filled(2 * m, -1),
        np.zeros(tracks, np.int64),
        ends,
        np.zeros(m, np.bool_),
        filled(size, -1),
    )
    for e in range(m):
        ends[e, 0] = first[e]
        ends[e, 1] = second[e]
        graph.table[find_link(first[e], second[e], graph)] = e
        for side in range(2):
            r = ends[e, side]
            half = np.int32(2 * e + side)
            if graph.head[r] < 0:
                graph.head[r] = half
            else:
                graph.following[graph.tail[r]] = half
            graph.tail[r] = half
            graph.degree[r] += 1
    return graph


@njit(cache=True, nogil=True, error_model="numpy")
def move_links(a, b, graph, links):
    """Hand the links of slot b to slot a: what both had becomes one, and their own is gone."""
    half = graph.head[b]
    while half >= 0:
        e = half // 2
        after = graph.following[half]
        if not graph.dead[e]:
            other = graph.ends[e, 1 - half % 2]
            drop_link(find_link(b, other, graph), graph)
            if other == a:
                graph.dead[e] = True
            else:
                place = find_link(a, other, graph)
                if graph.table[place] >= 0:  # that of b stays: it is about to be scored
                    double = graph.table[place]
                    links.length[e] += links.length[double]
                    links.contrast[e] += links.contrast[double]
                    graph.dead[double] = True
                graph.ends[e, half % 2] = a
                graph.table[place] = e
        half = after
    if graph.head[b] >= 0:
        if graph.head[a] < 0:
            graph.head[a] = graph.head[b]
        else:
            graph.following[graph.tail[a]] = graph.head[b]
        graph.tail[a] = graph.tail[b]
    graph.degree[a] += graph.degree[b]


@njit(cache=True, nogil=True, error_model="numpy")
def drop_dead(r, graph):
    """Take dead half-edges out of the list of a slot."""
    following = graph.following
    before = np.int32(-1)
    half = graph.head[r]
    while half >= 0:
        after = following[half]
        if graph.dead[half // 2]:
            if before < 0:
                graph.head[r] = after
            else:
                following[before] = after
            graph.degree[r] -= 1
        else:
            before = half
        half = after
    graph.tail[r] = before


@njit(cache=True, nogil=True, error_model="numpy")
def join_series(a, b, series):
    """Add the series of slot b to that of slot a; entries of one time become one.

    Their motions are means by now: see `merge_groups`.
    """
    head = series.head
    following = series.following
    time = series.time
    sums = series.sums
    i = head[a]
    j = head[b]
    last = np.int32(-1)
    while i >= 0 or j >= 0:
        if j < 0 or (i >= 0 and time[i] <= time[j]):
            e = i
            i = following[i]
            if j >= 0 and time[j] == time[e]:
                sums[e, 0] += sums[j, 0]
                share = sums[j, 0] / sums[e, 0]
                sums[e, 1] += share * (sums[j, 1] - sums[e, 1])
                sums[e, 2] += share * (sums[j, 2] - sums[e, 2])
                j = following[j]
        else:
            e = j
            j = following[j]
        if last < 0:
            head[a] = e
        else:
            following[last] = e
        last = e
    if last >= 0:
        following[last] = -1


@njit(cache=True, nogil=True, error_model="numpy")
def motion_gap_sq(a, b, series, sure_area):
    """Mean squared difference of the motions of two slots over the time both are seen, or 0.

    A difference counts less where one of them is small: the motion of few pixels is not sure.
    """
    following = series.following
    time = series.time
    sums = series.sums
    i = series.head[a]
    j = series.head[b]
    total = 0.0
    common = 0.0
    while i >= 0 and j >= 0:
        if time[i] < time[j]:
            i = following[i]
        elif time[j] < time[i]:
            j = following[j]
        else:
            dx = sums[i, 1] - sums[j, 1]
            dy = sums[i, 2] - sums[j, 2]
            least = min(sums[i, 0], sums[j, 0])
            total += (dx * dx + dy * dy) * least / (least + sure_area)
            common += 1.0
            i = following[i]
            j = following[j]
    return total / max(common, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def join_groups(a, b, e, groups, links):
    """Let row a take in row b, which link e joins, or none if it is negative."""
    moments = groups.moments
    sums = groups.sums
    total = moments[a, 1] + moments[b, 1]
    g = moments[b, 1] / total
    w = moments[a, 1] * g
    d0 = moments[b, 2] - moments[a, 2]
    d1 = moments[b, 3] - moments[a, 3]
    d2 = moments[b, 4] - moments[a, 4]
    moments[a, 5] += moments[b, 5] + w * d0 * d0
    moments[a, 6] += moments[b, 6] + w * d0 * d1
    moments[a, 7] += moments[b, 7] + w * d0 * d2
    moments[a, 8] += moments[b, 8] + w * d1 * d1
    moments[a, 9] += moments[b, 9] + w * d1 * d2
    moments[a, 10] += moments[b, 10] + w * d2 * d2
    moments[a, 2] += g * d0
    moments[a, 3] += g * d1
    moments[a, 4] += g * d2
    moments[a, 0] = total
    moments[a, 1] = total
    for c in range(sums.shape[1]):
        sums[a, c] += sums[b, c]
    if e >= 0:  # what lay between them is inside now, for both
        sums[a, OUTLINE] -= 2.0 * links.length[e]
        sums[a, CONTACT] -= 2.0 * links.length[e]
        sums[a, CONTRAST] -= 2.0 * links.contrast[e]


@njit(cache=True, nogil=True, error_model="numpy")
def level_of(a, b, e, groups, links, series, nearness):
    """How far apart the groups of two slots are that link e joins: their level.

    A product of differences, each in a unit at which it weighs about 1: colour (d_B), size, the
    edge along all their contact, motion, how little of the smaller outline they share, texture,
    how much they move against the scene, and how long the one that is seen less is seen.
    """
    moments = groups.moments
    sums = groups.sums
    colour = bhattacharyya(moments[a], moments[b], nearness.floor)
    volume = moments[a, 0] * moments[b, 0] / (moments[a, 0] + moments[b, 0])
    length = max(links.length[e], 1.0)
    edge = links.contrast[e] / (length * nearness.edge_unit)
    gap_sq = motion_gap_sq(a, b, series, nearness.sure_area)
    shared = min(length / max(min(sums[a, OUTLINE], sums[b, OUTLINE]), 1.0), 1.0)
    grain_a = sums[a, TEXTURE] / moments[a, 0] + nearness.texture_floor
    grain_b = sums[b, TEXTURE] / moments[b, 0] + nearness.texture_floor
    stirred = np.log((1.0 + groups.unrest[a]) / (1.0 + groups.unrest[b]))
    # One exponential of a sum of logarithms takes half the time of eight powers. What is equal to
    # the last digit differs by next to nothing, not by nothing: 0 has no logarithm.
    return np.exp(
        nearness.colour_power * np.log(max(colour, LEAST))
        + nearness.size_power * np.log(volume / (nearness.pixels * nearness.size_unit))
        + nearness.edge_power * np.log(max(edge, LEAST))
        + nearness.motion_power * np.log(1.0 + gap_sq / nearness.motion_sq)
        - nearness.contact_power * np.log(shared + nearness.contact_floor)
        + nearness.texture_power * np.log(1.0 + abs(np.log(grain_a / grain_b)))
        + nearness.unrest_power * np.log(1.0 + abs(stirred))
        + nearness.seen_power
        * np.log(max(min(groups.seen[a], groups.seen[b]), LEAST) / nearness.times)
    )


@njit(cache=True, nogil=True, error_model="numpy")
def note_node(node, a, groups, series, nodes):
    """Write what is known of the group in slot a as a row of the table of nodes.

    Its unrest, and in how many moments it is seen, are found on the way.
    """
    sums = series.sums
    entries = 0.0
    motion = 0.0
    squared = 0.0
    e = series.head[a]
    while e >= 0:
        x = sums[e, 1]
        y = sums[e, 2]
        entries += 1.0
        motion += np.sqrt(x * x + y * y)
        squared += x * x + y * y
        e = series.following[e]
    groups.seen[a] = entries
    groups.unrest[a] = squared / max(entries, 1.0)
    nodes[node, VOLUME] = groups.moments[a, 0]
    nodes[node, ENTRIES] = entries
    nodes[node, MOTION] = motion / max(entries, 1.0)
    nodes[node, NODE_OUTLINE] = groups.sums[a, OUTLINE]
    nodes[node, NODE_RIM] = groups.sums[a, RIM]


@njit(cache=True, nogil=True, error_model="numpy")
def merge_groups(groups, links, series, nearness, nodes):
    """Merge groups that touch, closest first, then those that are left; returns all merges.

    Works in the arrays given; of the series, sums of motion become means. Returns survivor and
    absorbed (k - 1,) int32, survivor the lower one, and level (k - 1,) float64, never falling.
    Writes nodes (2 k - 1, NODE_COLUMNS) float64.

    After a merge the links of the smaller part are scored anew, those of the larger one only once
    the group has grown by `growth`: else a ground that touches everything would be scored again
    for each speck it takes in. What comes up for merging is scored once more before it is done.
    """
    moments = groups.moments
    tracks = moments.shape[0]
    m = links.first.size
    graph = build_graph(tracks, links)
    name = numbers(0, tracks)  # the lowest row of the group in a slot
    parent = numbers(0, tracks)
    scored = np.empty(tracks, np.float64)  # volume when all links of a slot were scored
    for e in range(series.sums.shape[0]):  # means once, not at every comparison
        series.sums[e, 1] /= series.sums[e, 0]
        series.sums[e, 2] /= series.sums[e, 0]
    for r in range(tracks):
        scored[r] = moments[r, 0]
        note_node(r, np.int32(r), groups, series, nodes)
    survivor = np.empty(tracks - 1, np.int32)
    absorbed = np.empty(tracks - 1, np.int32)
    level = np.zeros(tracks - 1, np.float64)
    merges = 0
    highest = 0.0
    keys = np.empty(m + 1, np.float64)
    items = np.empty(m + 1, np.int64)
    size = np.int64(0)
    turn = np.zeros(m, np.int64)  # an entry of the heap is stale when its link was scored since
    for e in range(m):
        key = level_of(graph.ends[e, 0], graph.ends[e, 1], e, groups, links, series, nearness)
        size = push(keys, items, size, key, np.int64(e) << 32)
    while size > 0:
        e = items[0] >> 32
        fresh = not graph.dead[e] and turn[e] == items[0] & 0xFFFFFFFF
        size = pop(keys, items, size)
        if not fresh:
            continue
        a = graph.ends[e, 0]
        b = graph.ends[e, 1]
        key = level_of(a, b, e, groups, links, series, nearness)
        if size > 0 and key > keys[0]:
            turn[e] += 1
            size = push(keys, items, size, key, (np.int64(e) << 32) | turn[e])
            continue
        if graph.degree[a] < graph.degree[b]:
            a, b = b, a
        highest = max(highest, key)
        survivor[merges] = min(name[a], name[b])
        absorbed[merges] = max(name[a], name[b])
        level[merges] = highest
        name[a] = min(name[a], name[b])
        parent[b] = a
        join_groups(a, b, e, groups, links)
        join_series(a, b, series)
        note_node(tracks + merges, a, groups, series, nodes)
        merges += 1
        start = graph.head[b]
        move_links(a, b, graph, links)
        if moments[a, 0] > nearness.growth * scored[a]:
            scored[a] = moments[a, 0]
            drop_dead(a, graph)
            start = graph.head[a]
        half = start
        while half >= 0:
            e = np.int64(half // 2)
            if not graph.dead[e]:
                other = graph.ends[e, 1 - half % 2]
                key = level_of(a, other, e, groups, links, series, nearness)
                turn[e] += 1
                keys, items = heap_with_room(keys, items, size)
                size = push(keys, items, size, key, (e << 32) | turn[e])
            half = graph.following[half]
    rest = np.int32(-1)
    for r in range(tracks):
        if parent[r] == r and (rest < 0 or name[r] < name[rest]):
            rest = np.int32(r)
    last = 2.0 * highest if highest > 0.0 else 1.0
    for slot in range(tracks):  # what never touched: in the order of slots, all at one level
        r = np.int32(slot)
        if parent[r] == r and r != rest:
            survivor[merges] = name[rest]
            absorbed[merges] = name[r]
            level[merges] = last
            join_groups(rest, r, np.int64(-1), groups, links)
            join_series(rest, r, series)
            note_node(tracks + merges, rest, groups, series, nodes)
            merges += 1
    return survivor, absorbed, level


@njit(cache=True, nogil=True, error_model="numpy")
def resolve_nodes(survivor, absorbed, span, rows):
    """Write for each node its lowest track, the node it is absorbed into, first and last frame.

    span (k, 2) int64: first and last frame of the tracks. Writes rows (2 k - 1, 4) int64; the last
    node is absorbed into one past it.
    """
    tracks = span.shape[0]
    node = numbers(0, tracks)  # of the group that a track has the name of
    for r in range(tracks):
        rows[r, 0] = r
        rows[r, 2] = span[r, 0]
        rows[r, 3] = span[r, 1]
    for i in range(survivor.size):
        new = tracks + i
        a = node[survivor[i]]
        b = node[absorbed[i]]
        rows[a, 1] = new
        rows[b, 1] = new
        rows[new, 0] = survivor[i]
        rows[new, 2] = min(rows[a, 2], rows[b, 2])
        rows[new, 3] = max(rows[a, 3], rows[b, 3])
        node[survivor[i]] = new
    rows[2 * tracks - 2, 1] = 2 * tracks - 1


@njit(cache=True, nogil=True, error_model="numpy")
def cut_shown(survivor, absorbed, shown, segments, group):
    """Write the row that stands for the group of each row, after so many merges that few show.

    shown (k,) bool: which rows are seen; a group shows if one of its rows is. Writes group (k,)
    int32 with at most `segments` groups that show.
    """
    parent = numbers(0, group.size)
    shows = np.empty(group.size, np.bool_)
    count = 0
    for r in range(group.size):
        shows[r] = shown[r]
        count += int(shown[r])
    i = 0
    while count > segments and i < survivor.size:
        a = survivor[i]
        b = absorbed[i]
        parent[b] = a
        if shows[a] and shows[b]:
            count -= 1
        shows[a] = shows[a] or shows[b]
        i += 1
    for r in range(group.size):
        group[r] = find_root(parent, np.int32(r))


@njit(cache=True, nogil=True, error_model="numpy")
def list_shown(survivor, absorbed, shown, pairs):
    """List the merges of groups that both show; return how many.

    survivor, absorbed (n,) int32: merges of rows in their order; shown (k,) int32: what a row
    shows as, or -1. Writes pairs (n, 2) int32 of what they show as: the first goes on for both.
    """
    stands = shown.copy()
    n = 0
    for i in range(survivor.size):
        a = survivor[i]
        b = absorbed[i]
        if stands[a] >= 0 and stands[b] >= 0:
            pairs[n, 0] = stands[a]
            pairs[n, 1] = stands[b]
            n += 1
        elif stands[b] >= 0:
            stands[a] = stands[b]
    return n
