"""From supervoxels to objects: what the tree over tracks keeps of real video at each granularity.

Every sequence is segmented once. The tree of its first frames is cut where so many groups a frame
are left as each of --segments says, and scored by `aaams_stream.metrics.VideoScores`; with --peers
the segmenter itself and the peers of peers.py run at those counts, too. The live tree is judged
beside the final one: the tracks that the truth of frame 0 names are looked up in each frame's own
tree. Objects are judged on whole sequences, nothing told: J, the mean overlap over the frames
without the first and the last, of the first proposal, of the best of ten, and of the best group of
the tree.

Prints the means; writes report.md with tables per sequence, curves, pictures and results.csv to
benchmarks/reports/levels.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import peers
import report
import video_quality
from numpy.typing import NDArray

from aaams_stream.errors import AaamsError
from aaams_stream.params import Params, resolve

if TYPE_CHECKING:
    from aaams_stream.model import FrameSegmentation

TREE, LIVE = "tree", "live tree"
MEASURES = ("j_oracle", "j_prop", "life", "life_vol", "br", "bp")
PROPOSALS = 10


@dataclass(frozen=True, slots=True)
class Row:
    """One method at one count on one sequence; lives are shares of the clip."""

    sequence: str
    method: str
    wanted: int
    per_frame: float
    figures: dict[str, float | None]


@dataclass(frozen=True, slots=True)
class Objects:
    """J of what was proposed in one sequence, and what the tree cost."""

    sequence: str
    first: float
    best: float  # of the first ten
    node: float  # of all groups of the tree
    milliseconds: float  # CPU a frame, for the tree and the proposals


@dataclass(frozen=True, slots=True)
class Job:
    """What to do with every sequence."""

    params: Params
    segments: tuple[int, ...]
    frames: int
    peers: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 on a problem the user can fix."""
    args = build_parser().parse_args(argv)
    try:
        job = Job(resolve(args.config).overridden(args.set), args.segments, args.frames, args.peers)
        clips = video_quality.find_sequences(args.data, args.sequences, args.most, 1.0)
    except AaamsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    folder = report.report_folder("levels")
    progress = report.Progress("levels", len(clips))
    rows: list[Row] = []
    objects: list[Objects] = []
    for clip in clips:
        found, proposed = work(clip, job, folder)
        rows += found
        objects.append(proposed)
        progress.step()
    text = describe(rows, objects)
    print(text)
    write(folder, text, rows, objects)
    report.say(f"levels: report in {folder}")
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    data = os.environ.get("VIDEO_TRUTH", "data/video")
    parser.add_argument("--data", type=Path, default=Path(data), help=f"the set ({data})")
    parser.add_argument("--frames", type=int, default=40, help="of curves, from the first (40)")
    parser.add_argument("--most", type=int, default=10**6, help="frames of objects (all)")
    parser.add_argument(
        "--sequences", type=lambda t: tuple(t.lower().split(",")), default=("davis",), metavar="…"
    )
    parser.add_argument(
        "--segments",
        type=lambda text: tuple(map(int, text.split(","))),
        default=(100, 50, 25, 10),
        metavar="N,…",
        help="groups a frame (100,50,25,10)",
    )
    parser.add_argument(
        "--peers", action="store_true", help="the segmenter at each count, and peers"
    )
    parser.add_argument("--config", type=Path, help="settings as TOML")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE")
    return parser


def work(clip: video_quality.Clip, job: Job, folder: Path) -> tuple[list[Row], Objects]:
    """Return everything the job asks of one sequence, and draw it."""
    from aaams_stream import Segmenter

    pictures, truths = clip.load()
    segmenter = Segmenter(job.params)
    frames = [segmenter.step(rgb) for rgb in pictures]
    begin = frames[: job.frames]
    tree, _, _ = built(begin, job.params)
    rows = [scored(clip, TREE, 0, [frame.ids for frame in begin], truths)]
    drawn = [[("first frame", pictures[0]), ("last frame", pictures[len(begin) - 1])]]
    for wanted in job.segments:
        lut = groups_at(tree, begin, wanted)
        ids = [lut[frame.ids] for frame in begin]
        rows.append(scored(clip, TREE, wanted, ids, truths))
        ends = [(pictures[t], ids[t]) for t in (0, -1 + len(begin))]
        drawn.append([(f"{wanted} a frame", video_quality.tinted(*end)) for end in ends])
        rows.append(live_row(clip, begin, truths, wanted, job.params))
        if job.peers:
            for method in (
                peers.ours(job.params, wanted),
                *peers.at_hand(job.params, wanted),
            ):
                found = list(method.run(pictures[: job.frames]))
                rows.append(scored(clip, method.name, wanted, found, truths))
    report.picture_grid(folder / f"{clip.name}.png", drawn, width=5.0)
    return rows, judged(clip, frames, truths, job.params)


def built(
    frames: Sequence[FrameSegmentation], params: Params
) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Return the tree over the tracks of frames, the objects in it, and the CPU seconds of both."""
    from aaams_stream.core.levels import LevelBuilder, with_frame

    names = ("segments", "adjacency", "events")
    tables = [
        np.concatenate([with_frame(getattr(frame, name), frame.index) for frame in frames])
        for name in names
    ]
    height, width = frames[0].ids.shape
    begun = time.process_time()
    builder = LevelBuilder((height, width), params)
    builder.add(*tables)
    tree = builder.finish()
    objects = builder.objects(PROPOSALS)
    return tree, objects, time.process_time() - begun


def groups_at(
    tree: NDArray[Any], frames: Sequence[FrameSegmentation], wanted: int
) -> NDArray[np.uint32]:
    """Return the group of every id in the cut whose mean number of groups a frame is nearest."""
    seen: dict[int, set[int]] = {}
    for frame in frames:
        for name in frame.segments["id"].tolist():
            seen.setdefault(name, set()).add(frame.index)
    count = sum(map(len, seen.values()))
    best, merges = abs(count - wanted * len(frames)), 0
    order = np.argsort(tree["level"], kind="stable")
    pairs = [(int(tree["survivor"][i]), int(tree["absorbed"][i])) for i in order]
    for done, (survivor, absorbed) in enumerate(pairs, 1):
        count -= len(seen[survivor] & seen[absorbed])
        seen[survivor] |= seen.pop(absorbed)
        if abs(count - wanted * len(frames)) < best:
            best, merges = abs(count - wanted * len(frames)), done
    top = max(int(frame.segments["id"].max()) for frame in frames)
    lut = np.arange(top + 1, dtype=np.uint32)
    for survivor, absorbed in pairs[:merges]:
        lut[absorbed] = survivor
    for name in range(len(lut)):  # whoever absorbs is lower, and known by then
        lut[name] = lut[lut[name]]
    return lut


def scored(
    clip: video_quality.Clip,
    method: str,
    wanted: int,
    ids: Sequence[NDArray[Any]],
    truths: Sequence[NDArray[Any]],
) -> Row:
    """Return the scores of the ids of the first frames."""
    from aaams_stream.metrics import VideoScores

    scores = VideoScores(clip.ignore)
    for ours, truth in zip(ids, truths, strict=False):
        scores.add(ours, truth)
    result = scores.result()
    figures: dict[str, float | None] = {name: getattr(result, name) for name in MEASURES}
    for name in ("life", "life_vol"):
        figures[name] = getattr(result, name) / result.frames
    return Row(clip.name, method, wanted, result.per_frame, figures)


def live_row(
    clip: video_quality.Clip,
    frames: Sequence[FrameSegmentation],
    truths: Sequence[NDArray[Any]],
    wanted: int,
    params: Params,
) -> Row:
    """Return j_prop of the live tree: tracks named by frame 0's truth, in each frame's own tree."""
    from aaams_stream.core.live_levels import LiveLevels

    height, width = frames[0].ids.shape
    live = LiveLevels((height, width), params)
    overlaps, counts = [], []
    start: NDArray[np.int64] = np.zeros((0, 3), np.int64)
    for frame, truth in zip(frames, truths, strict=False):
        live.update(frame)
        inside = truth > 0
        ids, names = live.all_groups(wanted)
        if frame.index == frames[0].index:
            own, area = np.unique(frame.ids, return_counts=True)
            part = np.array([np.count_nonzero(inside[frame.ids == i]) for i in own])
            start = np.stack([own.astype(np.int64), area, part], axis=1)
            continue
        known = start[np.isin(start[:, 0], ids)]
        group = names[np.searchsorted(ids, known[:, 0])].astype(np.int64)
        area = np.bincount(group, known[:, 1], int(names.max()) + 1)
        part = np.bincount(group, known[:, 2], int(names.max()) + 1)
        shown = names[np.searchsorted(ids, frame.ids)]
        counts.append(len(np.unique(shown)))
        if inside.any():
            overlaps.append(overlap(2 * part[shown] > area[shown], inside))
    figures: dict[str, float | None] = dict.fromkeys(MEASURES)
    figures["j_prop"] = float(np.mean(overlaps)) if overlaps else None
    return Row(clip.name, LIVE, wanted, float(np.mean(counts or [0])), figures)


def overlap(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> float:
    """Return the intersection over the union."""
    return int(np.count_nonzero(one & other)) / max(int(np.count_nonzero(one | other)), 1)


def judged(
    clip: video_quality.Clip,
    frames: Sequence[FrameSegmentation],
    truths: Sequence[NDArray[Any]],
    params: Params,
) -> Objects:
    """Return J of the proposals of a whole sequence, and of the best group of its tree."""
    from aaams_stream.core.proposals import members_of

    tree, objects, seconds = built(frames, params)
    top = max(int(frame.ids.max()) for frame in frames) + 1
    area = np.stack([np.bincount(frame.ids.ravel(), minlength=top) for frame in frames], axis=1)
    part = np.stack(
        [
            np.bincount(frame.ids[truth > 0], minlength=top)
            for frame, truth in zip(frames, truths, strict=True)
        ],
        axis=1,
    )
    true = part.sum(axis=0)
    judged_frames = true > 0
    judged_frames[[0, -1]] = False

    def j_of(drawn: NDArray[np.int64], both: NDArray[np.int64]) -> float:
        return float((both / np.maximum(drawn + true - both, 1))[judged_frames].mean())

    found = [
        j_of(area[ids].sum(axis=0), part[ids].sum(axis=0)) for ids in members_of(tree, objects)
    ]
    nodes = max(j_of(*group) for group in _groups(tree, area, part))
    cost = 1e3 * seconds / len(frames)
    return Objects(clip.name, (found or [0.0])[0], max(found, default=0.0), nodes, cost)


def _groups(
    tree: NDArray[Any], area: NDArray[np.int64], part: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield pixels a frame, and those in the truth, of all groups of a tree."""
    area, part = area.copy(), part.copy()
    yield from zip(area, part, strict=True)
    for survivor, absorbed in zip(tree["survivor"], tree["absorbed"], strict=True):
        area[survivor] += area[absorbed]
        part[survivor] += part[absorbed]
        yield area[survivor], part[survivor]


def describe(rows: Sequence[Row], objects: Sequence[Objects]) -> str:
    """Return the report as Markdown."""
    kinds = list(dict.fromkeys((row.method, row.wanted) for row in rows))
    means = []
    for method, wanted in kinds:
        same = [row for row in rows if (row.method, row.wanted) == (method, wanted)]
        cells = [_mean([row.figures[name] for row in same]) for name in MEASURES]
        count = float(np.mean([row.per_frame for row in same]))
        means.append((method, wanted or "base", round(count, 1), *cells))
    figures = np.array([(o.first, o.best, o.node, o.milliseconds) for o in objects])
    names = [*(o.sequence for o in objects), "mean"]
    lines = [*figures.round(3).tolist(), figures.mean(axis=0).round(3).tolist()]
    shown = [(name, *line) for name, line in zip(names, lines, strict=True)]
    return "\n\n".join(
        [
            "# Levels",
            f"## Mean over {len(objects)} sequences",
            report.markdown_table(("method", "wanted", "per_frame", *MEASURES), means),
            "Lives are shares of the clip. j_prop of the live tree: tracks named in frame 0, "
            "looked up in the tree of each frame.",
            "## Objects, whole sequences, nothing told: J",
            report.markdown_table(
                ("sequence", "first", f"best of {PROPOSALS}", "best group", "CPU ms a frame"), shown
            ),
            report.environment(),
        ]
    )


def _mean(values: Sequence[float | None]) -> float | str:
    """Return the mean of those that are there, for a table."""
    there = [value for value in values if value is not None]
    return round(float(np.mean(there)), 3) if there else "-"


def write(folder: Path, text: str, rows: Sequence[Row], objects: Sequence[Objects]) -> None:
    """Write the report, the curves and every figure."""
    pictures = "\n\n".join(f"![{o.sequence}]({o.sequence}.png)" for o in objects)
    (folder / "report.md").write_text(
        f"{text}\n\n![curves](curves.png)\n\n{pictures}\n", encoding="utf-8"
    )
    with (folder / "results.csv").open("w", newline="", encoding="utf-8") as file:
        sheet = csv.writer(file)
        sheet.writerow(("sequence", "method", "wanted", "per_frame", *MEASURES))
        for row in rows:
            figures = [row.figures[name] for name in MEASURES]
            sheet.writerow((row.sequence, row.method, row.wanted, row.per_frame, *figures))
    plot(folder / "curves.png", rows)


def plot(path: Path, rows: Sequence[Row]) -> None:
    """Draw each measure over the segments a frame."""
    pyplot = report.pyplot()
    shown = ("j_oracle", "j_prop", "life", "br")
    figure, axes = pyplot.subplots(1, len(shown), figsize=(4 * len(shown), 3.5))
    for axis, name in zip(axes, shown, strict=True):
        for method in dict.fromkeys(row.method for row in rows):
            points = []
            for wanted in dict.fromkeys(row.wanted for row in rows if row.method == method):
                same = [r for r in rows if (r.method, r.wanted) == (method, wanted)]
                value = _mean([row.figures[name] for row in same])
                if not isinstance(value, str):
                    points.append((float(np.mean([row.per_frame for row in same])), value))
            if points:
                axis.plot(*zip(*sorted(points), strict=True), "o-", label=method)
        axis.set_xscale("log")
        axis.set_xlabel("segments a frame")
        axis.set_title(name)
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
