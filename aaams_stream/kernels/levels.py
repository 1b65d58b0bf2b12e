"""The tree over tracks: sums over the tables of a scene, and groups that merge, closest first.

Rows of all arrays are tracks in the order of their ids. A group lives in the slot of one of its
members, the one with more neighbours, so that little is moved when two join.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from aaams_stream.kernels.common import (
    add_pair,
    bhattacharyya,
    filled,
    find_slot,
    heap_with_room,
    numbers,
    pop,
    push,
)


class Rows(NamedTuple):
    """Columns of the table of segments; rows in the order of frames."""

    frame: Any  # (n,) int64, counted from the first of the scene
    track: Any  # (n,) int64
    area: Any  # (n,) uint32
    colour: Any  # (n, 3) float32
    spread: Any  # (n, 3) float32
    motion: Any  # (n, 2) float32


class Series(NamedTuple):
    """Motion by time, a list of entries for each track in the order of time."""

    head: Any  # (k,) int32: the first entry of a track, or -1
    tail: Any  # (k,) int32
    following: Any  # (e,) int32
    time: Any  # (e,) int32: frame over the stride
    sums: Any  # (e, 3) float64: area, area times motion


class Links(NamedTuple):
    """Pairs of tracks that touch, and the sums over all their contact."""

    first: Any  # (m,) int32, the lower one
    second: Any  # (m,) int32
    length: Any  # (m,) float64
    contrast: Any  # (m,) float64: times length


class Nearness(NamedTuple):
    """How far apart two groups are; see `LevelTuning`."""

    floor: Any  # added to variances of colour
    pixels: Any  # of the whole scene: of a frame, times frames
    size_unit: Any
    size_power: Any
    edge_unit: Any
    edge_power: Any
    motion_sq: Any
    motion_power: Any
    growth: Any


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
def gather_segments(rows, sums, series, state, bins):
    """Add rows to the sums of their tracks, one by one: blocks make no difference.

    sums (k, 10): volume, colour (3) and its second moments (6), summed over pixels. state (2,)
    int64: frames per entry of a series, and how many entries there are. Where the scene has grown
    beyond `bins` entries, two and two become one.
    """
    for i in range(rows.frame.size):
        while rows.frame[i] // state[0] >= bins:
            state[0] *= 2
            state[1] = halve(series, state[1])
        r = rows.track[i]
        area = np.float64(rows.area[i])
        c0 = np.float64(rows.colour[i, 0])
        c1 = np.float64(rows.colour[i, 1])
        c2 = np.float64(rows.colour[i, 2])
        s0 = np.float64(rows.spread[i, 0])
        s1 = np.float64(rows.spread[i, 1])
        s2 = np.float64(rows.spread[i, 2])
        sums[r, 0] += area
        sums[r, 1] += area * c0
        sums[r, 2] += area * c1
        sums[r, 3] += area * c2
        sums[r, 4] += area * (c0 * c0 + s0 * s0)
        sums[r, 5] += area * c0 * c1
        sums[r, 6] += area * c0 * c2
        sums[r, 7] += area * (c1 * c1 + s1 * s1)
        sums[r, 8] += area * c1 * c2
        sums[r, 9] += area * (c2 * c2 + s2 * s2)
        time = rows.frame[i] // state[0]
        e = series.tail[r]
        if e < 0 or series.time[e] != time:
            new = state[1]
            state[1] += 1
            if e < 0:
                series.head[r] = new
            else:
                series.following[e] = new
            series.tail[r] = new
            series.following[new] = -1
            series.time[new] = time
            series.sums[new, 0] = 0.0
            series.sums[new, 1] = 0.0
            series.sums[new, 2] = 0.0
            e = new
        series.sums[e, 0] += area
        series.sums[e, 1] += area * np.float64(rows.motion[i, 0])
        series.sums[e, 2] += area * np.float64(rows.motion[i, 1])


@njit(cache=True, nogil=True, error_model="numpy")
def halve(series, entries):
    """Let two moments of time become one in all series; returns how many entries are left.

    Entries are put in the order of their tracks; what was left free between is free again.
    """
    following = series.following
    time = series.time
    sums = series.sums
    old_following = np.empty(entries, np.int32)
    old_time = np.empty(entries, np.int32)
    old_sums = np.empty((entries, 3), np.float64)
    for e in range(entries):
        old_following[e] = following[e]
        old_time[e] = time[e]
        for c in range(3):
            old_sums[e, c] = sums[e, c]
    n = np.int64(0)
    for r in range(series.head.size):
        e = series.head[r]
        if e < 0:
            continue
        series.head[r] = n
        last = np.int64(-1)
        while e >= 0:
            half = old_time[e] // 2
            if last >= 0 and time[last] == half:
                for c in range(3):
                    sums[last, c] += old_sums[e, c]
            else:
                if last >= 0:
                    following[last] = n
                time[n] = half
                for c in range(3):
                    sums[n, c] = old_sums[e, c]
                last = n
                n += 1
            e = old_following[e]
        following[last] = -1
        series.tail[r] = last
    return n


@njit(cache=True, nogil=True, error_model="numpy")
def gather_contacts(first, second, length, contrast, pairs, count):
    """Add rows of the table of contacts to `pairs`, which has room; return how many there are.

    Sums: length, and contrast times length.
    """
    for i in range(first.size):
        slot = find_slot(first[i], second[i], pairs)
        if pairs.slots[slot] < 0:
            count = add_pair(first[i], second[i], slot, pairs, count)
        row = pairs.slots[slot]
        sides = np.float64(length[i])
        pairs.sums[row, 0] += sides
        pairs.sums[row, 1] += sides * np.float64(contrast[i])
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def refill(pairs, count):
    """Enter the first `count` rows of a table of pairs into its empty slots."""
    for row in range(count):
        slot = find_slot(pairs.first[row], pairs.second[row], pairs)
        pairs.slots[slot] = row


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
    """Add the series of slot b to that of slot a; entries of one time become one."""
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
                for c in range(3):
                    sums[e, c] += sums[j, c]
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
def motion_gap_sq(a, b, series):
    """Mean squared difference of the motions of two slots over the time both are seen, or 0."""
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
            dx = sums[i, 1] / sums[i, 0] - sums[j, 1] / sums[j, 0]
            dy = sums[i, 2] / sums[i, 0] - sums[j, 2] / sums[j, 0]
            total += dx * dx + dy * dy
            common += 1.0
            i = following[i]
            j = following[j]
    return total / max(common, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def join_moments(moments, a, b):
    """Let row a of the moments take in row b: volume twice, mean colour (3), its scatter (6)."""
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


@njit(cache=True, nogil=True, error_model="numpy")
def level_of(a, b, e, moments, links, series, nearness):
    """How far apart the groups of two slots are that link e joins: their level."""
    colour = np.sqrt(bhattacharyya(moments[a], moments[b], nearness.floor))
    volume = moments[a, 0] * moments[b, 0] / (moments[a, 0] + moments[b, 0])
    size = (volume / (nearness.pixels * nearness.size_unit)) ** nearness.size_power
    contrast = links.contrast[e] / max(links.length[e], 1.0)
    edge = (contrast / nearness.edge_unit) ** nearness.edge_power
    gap_sq = motion_gap_sq(a, b, series)
    parting = (1.0 + gap_sq / nearness.motion_sq) ** nearness.motion_power
    return colour * size * edge * parting


@njit(cache=True, nogil=True, error_model="numpy")
def merge_groups(moments, links, series, nearness):
    """Merge groups that touch, closest first, then those that are left; returns all merges.

    moments (k, 11) as in `join_moments`; works in the arrays given. Returns survivor and absorbed
    (k - 1,) int32, survivor the lower one, and level (k - 1,) float64, never falling.

    After a merge the links of the smaller part are scored anew, those of the larger one only once
    the group has grown by `growth`: else a ground that touches everything would be scored again
    for each speck it takes in. What comes up for merging is scored once more before it is done.
    """
    tracks = moments.shape[0]
    m = links.first.size
    graph = build_graph(tracks, links)
    name = numbers(0, tracks)  # the lowest row of the group in a slot
    parent = numbers(0, tracks)
    scored = np.empty(tracks, np.float64)  # volume when all links of a slot were scored
    for r in range(tracks):
        scored[r] = moments[r, 0]
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
        key = level_of(graph.ends[e, 0], graph.ends[e, 1], e, moments, links, series, nearness)
        size = push(keys, items, size, key, np.int64(e) << 32)
    while size > 0:
        e = items[0] >> 32
        fresh = not graph.dead[e] and turn[e] == items[0] & 0xFFFFFFFF
        size = pop(keys, items, size)
        if not fresh:
            continue
        a = graph.ends[e, 0]
        b = graph.ends[e, 1]
        key = level_of(a, b, e, moments, links, series, nearness)
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
        merges += 1
        name[a] = min(name[a], name[b])
        parent[b] = a
        join_moments(moments, a, b)
        join_series(a, b, series)
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
                key = level_of(a, other, e, moments, links, series, nearness)
                turn[e] += 1
                keys, items = heap_with_room(keys, items, size)
                size = push(keys, items, size, key, (e << 32) | turn[e])
            half = graph.following[half]
    rest = np.int32(-1)
    for r in range(tracks):
        if parent[r] == r:
            rest = name[r] if rest < 0 else min(rest, name[r])
    for r in range(tracks):  # what never touched: in the order of slots, all at one level
        if parent[r] == r and name[r] != rest:
            survivor[merges] = rest
            absorbed[merges] = name[r]
            level[merges] = 2.0 * highest if highest > 0.0 else 1.0
            merges += 1
    return survivor, absorbed, level
