"""A second opinion on a volume: all that can be said of it from its ids and pictures alone.

Reads with Zarr and nothing of the package, and computes in the obvious way, so that a mistake in
the package is not repeated here.
"""

from __future__ import annotations

import base64
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from skimage.color import rgb2lab

BIRTH, DEATH, SPLIT, MERGE, RETURN, CUT = range(1, 7)


class Told:
    """What a volume says."""

    def __init__(self, path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Zarr's, of a codec that is not in its specification
            root = zarr.open_group(str(path), mode="r")
            self.record: Any = root.attrs["aaams_stream"]
            self.ids = root["labels/ids/0"][:]
            self.video = root["0"][:].transpose(0, 2, 3, 1)
        self.times = root["time"][:]
        self.inside = np.ones(self.ids.shape[1:], bool)
        if "roi" in self.record["source"]:
            packed = zlib.decompress(base64.b64decode(self.record["source"]["roi"]))
            bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=self.inside.size)
            self.inside = bits.reshape(self.inside.shape) > 0
        self.tables = {
            table: {name: root[f"{table}/{name}"][:] for name in root[table].array_keys()}
            for table in ("segments", "adjacency", "events", "tracks", "hierarchy", "objects")
        }

    def rows(self, table: str, t: int) -> dict[str, Any]:
        """Return the columns of a table in one frame."""
        columns = self.tables[table]
        start, stop = columns["offsets"][t : t + 2].astype(int)
        return {n: values[start:stop] for n, values in columns.items() if n != "offsets"}


def violations(path: Path) -> list[str]:
    """Return everything in which a complete volume with pictures contradicts itself."""
    told = Told(path)
    found = [*_of_shapes(told)]
    if not found:
        for t in range(len(told.ids)):
            found += [f"frame {t}: {wrong}" for wrong in _of_frame(told, t)]
        found += [*_of_events(told), *_of_tracks(told), *_of_levels(told)]
    return found


def _of_shapes(told: Told) -> Iterator[str]:
    frames = told.record["frames_committed"]
    if not told.record["complete"] or not len(told.ids) == len(told.video) == frames:
        yield "frames: not as many as it says"
    if len(told.times) != frames or not (np.diff(told.times) > 0).all():
        yield "times: do not rise"
    for table, columns in told.tables.items():
        lengths = {len(values) for name, values in columns.items() if name != "offsets"}
        if len(lengths) != 1:
            yield f"{table}: columns of several lengths"
        elif "offsets" in columns:
            offsets = columns["offsets"].astype(int)
            if len(offsets) != frames + 1 or offsets[0] or (np.diff(offsets) < 0).any():
                yield f"{table}: offsets do not rise from 0"
            elif offsets[-1] != lengths.pop():
                yield f"{table}: offsets do not end with the rows"
            elif not np.array_equal(
                columns["frame"], np.repeat(np.arange(frames), np.diff(offsets))
            ):
                yield f"{table}: frames are not those of the offsets"


def _of_frame(told: Told, t: int) -> Iterator[str]:
    ids, segments = told.ids[t], told.rows("segments", t)
    if not np.array_equal(ids > 0, told.inside):
        yield "pixels without an id"
    names, areas = np.unique(ids[ids > 0], return_counts=True)
    if not np.array_equal(segments["id"], names) or not np.array_equal(segments["area"], areas):
        yield "segments: not the ids and areas of the pixels"
        return
    lab = rgb2lab(told.video[t])
    framed = np.pad(ids, 1)
    for k, name in enumerate(names):
        y, x = np.nonzero(ids == name)
        if segments["bbox"][k].tolist() != [x.min(), y.min(), x.max() + 1, y.max() + 1]:
            yield f"bbox of {name}"
        if not np.allclose(segments["centroid"][k], (x.mean(), y.mean()), rtol=1e-5, atol=1e-3):
            yield f"centroid of {name}"
        colours = lab[y, x]
        if not np.allclose(segments["colour"][k], colours.mean(axis=0), atol=0.02):
            yield f"colour of {name}"
        if not np.allclose(segments["colour_spread"][k], colours.std(axis=0), atol=0.03):
            yield f"colour_spread of {name}"
        sides = sum(
            np.count_nonzero(framed[1 + y + dy, 1 + x + dx] != name)
            for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))
        )
        if segments["perimeter"][k] != sides:
            yield f"perimeter of {name}"
    yield from _of_contacts(told, t, lab)


def _of_contacts(told: Told, t: int, lab: Any) -> Iterator[str]:
    ids, rows = told.ids[t], told.rows("adjacency", t)
    gaps: dict[tuple[int, int], list[float]] = {}
    for one, other in (
        ((slice(None), slice(1, None)), (slice(None), slice(None, -1))),
        ((slice(1, None), slice(None)), (slice(None, -1), slice(None))),
    ):
        apart = (ids[one] != ids[other]) & (ids[one] > 0) & (ids[other] > 0)
        far = np.linalg.norm(lab[one] - lab[other], axis=2)[apart]
        ends = np.sort(np.stack([ids[one][apart], ids[other][apart]]), axis=0).T.tolist()
        for pair, gap in zip(map(tuple, ends), far.tolist(), strict=True):
            gaps.setdefault(pair, []).append(gap)
    pairs = list(zip(rows["first"].tolist(), rows["second"].tolist(), strict=True))
    if pairs != sorted(gaps):
        yield "adjacency: not the pairs that touch"
        return
    for pair, length, contrast in zip(pairs, rows["length"], rows["contrast"], strict=True):
        if length != len(gaps[pair]) or abs(contrast - np.mean(gaps[pair])) > 0.05:
            yield f"adjacency of {pair}"


def _of_events(told: Told) -> Iterator[str]:
    """Who comes and goes, by the pixels, must be who the events say."""
    seen: set[int] = set()
    before: set[int] = set()
    counts = dict.fromkeys(("birth", "death", "split", "merge", "return", "cut"), 0)
    for t, ids in enumerate(told.ids):
        here = set(np.unique(ids).tolist()) - {0}
        rows = told.rows("events", t)
        kinds = rows["kind"].tolist()
        named = {kind: rows["id"][rows["kind"] == kind].tolist() for kind in range(BIRTH, CUT + 1)}
        for kind in kinds:
            counts[list(counts)[kind - 1]] += 1
        born = named[BIRTH] + named[SPLIT]
        if sorted(born) != sorted(here - seen):
            yield f"frame {t}: events: births are not who is new"
        if sorted(named[RETURN]) != sorted((here & seen) - before):
            yield f"frame {t}: events: returns are not who is back"
        if born and seen and min(born) <= max(seen):
            yield f"frame {t}: events: an id is not larger than all before"
        gone = before - here
        ended = named[DEATH] + named[MERGE]
        if CUT in kinds:
            if here & seen:
                yield f"frame {t}: events: an id lived through a cut"
        elif not set(ended) <= gone:
            yield f"frame {t}: events: someone ended who is here"
        parents = rows["other"][rows["kind"] == SPLIT].tolist()
        if not set(parents) <= seen | here:
            yield f"frame {t}: events: split off someone unknown"
        seen |= here
        before = here
    said = told.record["counts"]
    if said["identities"] != max(seen) or said["events"] != {k: n for k, n in counts.items() if n}:
        yield "counts: not those of the events"


def _of_tracks(told: Told) -> Iterator[str]:
    tracks, segments = told.tables["tracks"], told.tables["segments"]
    if not np.array_equal(tracks["id"], np.unique(told.ids[told.ids > 0])):
        yield "tracks: not the ids of the pixels"
        return
    for k, name in enumerate(tracks["id"]):
        at = segments["id"] == name
        frames, area, path = segments["frame"][at], segments["area"][at].astype(float), 0.0
        centres = segments["centroid"][at].astype(float)
        path = np.hypot(*np.diff(centres, axis=0).T).sum() if len(centres) > 1 else 0.0
        colour = (segments["colour"][at] * area[:, None]).sum(axis=0) / area.sum()
        expected = [frames[0], frames[-1], len(frames), area.sum()]
        if [tracks[n][k] for n in ("first", "last", "frames", "volume")] != expected:
            yield f"tracks: life of {name}"
        if not np.isclose(tracks["path"][k], path, rtol=1e-3, atol=1e-3):
            yield f"tracks: path of {name}"
        if not np.allclose(tracks["colour"][k], colour, rtol=1e-4, atol=1e-3):
            yield f"tracks: colour of {name}"
        if not np.array_equal(tracks["start"][k], segments["centroid"][at][0]):
            yield f"tracks: start of {name}"


def _of_levels(told: Told) -> Iterator[str]:
    """Check that merges make trees, each of one scene, and that objects are groups of theirs."""
    merges, cuts = told.tables["hierarchy"], []
    for t in range(len(told.ids)):
        cuts += [t] * (CUT in told.rows("events", t)["kind"])
    tracks = told.tables["tracks"]
    scene = dict(
        zip(tracks["id"].tolist(), np.searchsorted(cuts, tracks["first"], "right"), strict=True)
    )
    group = {name: name for name in scene}
    formed: dict[int, list[float]] = {}
    last: dict[int, float] = {}
    for survivor, absorbed, level in zip(
        *(merges[n].tolist() for n in ("survivor", "absorbed", "level")), strict=True
    ):
        if group.get(survivor) != survivor or group.get(absorbed) != absorbed:
            yield f"hierarchy: {survivor} or {absorbed} is no group any more"
            return
        if survivor >= absorbed or scene[survivor] != scene[absorbed]:
            yield f"hierarchy: {absorbed} may not go into {survivor}"
        if level < last.get(scene[survivor], 0.0):
            yield "hierarchy: a level falls"
        last[scene[survivor]] = level
        formed.setdefault(survivor, []).append(level)
        for name, of in group.items():
            if of == absorbed:
                group[name] = survivor
    objects = told.tables["objects"]
    for name, level in zip(objects["id"].tolist(), objects["level"].tolist(), strict=True):
        if level not in [0.0, *formed.get(name, [])]:
            yield f"objects: {name} is no group at its level"
    if (np.diff(objects["score"]) > 0).any():
        yield "objects: not best first"
