"""Volumes that are damaged at random: every command and every method says so, or is right.

What each gives of the sound volume is known. Of a damaged one it must give the same, or an
AaamsError, in a command one line and exit code 2; never another error, and never end in a hang.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import random
import shutil
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import av
import cv2
import numpy as np
from support.clips import moving_frames, write_clip
from support.older import make_older

from aaams_stream import open_volume, segment_video, store
from aaams_stream.cli import main
from aaams_stream.errors import AaamsError
from aaams_stream.run.segment_video import Interrupted
from aaams_stream.run.stream import replay

FRAMES, PATIENCE = 21, 60  # seconds of processor time for one command
SETTINGS = ("--set", "stream.segments=12")


class Base(NamedTuple):
    """A sound volume, and what everything gives of it."""

    path: Path
    checksums: bool  # whether wrong data is noticed
    options: tuple[str, ...]  # with which it was segmented
    known: dict[str, str]


def campaign(
    limit: int | float,
    seed: int,
    folder: Path,
    tell: Callable[[str], None] | None = None,
    bases: list[Base] | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> list[str]:
    """Damage volumes `limit` times, or for so many seconds if it is a float; return failures.

    tell: called with each as it is found; bases: what `build_bases` made in this folder before;
    done: called with the number of volumes so far.
    """
    rng = random.Random(seed)
    bases = bases or build_bases(folder)
    failures: list[str] = []
    begun, count = time.monotonic(), 0
    while count < limit if isinstance(limit, int) else time.monotonic() - begun < limit:
        base = bases[count % len(bases)]
        target = folder / "damaged.zarr"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(base.path, target)
        told, swapped = damage(target, rng)
        must_notice = base.checksums and not swapped
        for name, problem in problems(target, base, folder, must_notice):
            failures.append(f"{base.path.name}, {told}: {name}: {problem}")
            if tell is not None:
                tell(failures[-1])
        count += 1
        done(count)
    return failures


def build_bases(folder: Path) -> list[Base]:
    """Make a complete and an unfinished volume, each as of today and as of an earlier build.

    One that is packed and one of a region of interest come on top.
    """
    clip = write_clip(folder / "clip.mkv", moving_frames(FRAMES))
    truth = folder / "truth"
    truth.mkdir()
    for index, frame in enumerate(moving_frames(FRAMES)):
        cv2.imwrite(str(truth / f"{index:05d}.png"), (frame[..., 0] == 250).astype(np.uint8))
    whole, torn = folder / "whole.zarr", folder / "torn.zarr"
    segment_video(clip, whole, segments=12, with_video=True)
    store.materialise(whole, 3)

    def stop(progress: Any) -> None:
        if progress.frames == 10:
            signal.raise_signal(signal.SIGINT)

    with contextlib.suppress(Interrupted):
        segment_video(clip, torn, segments=12, with_video=True, progress=stop)
    paths = [whole, torn]
    for path in (whole, torn):
        older = path.with_name(f"older-{path.name}")
        shutil.copytree(path, older)
        make_older(older)
        paths.append(older)
    paths += [folder / "packed.zarr", folder / "region.zarr"]
    store.pack(whole, paths[-2])
    region, options = np.full((48, 64), 255, np.uint8), ("--mask", str(folder / "region.png"))
    region[5:20, 30:] = 0
    cv2.imwrite(options[1], region)
    segment_video(clip, paths[-1], segments=12, with_video=True, roi=options[1])
    bases = []
    for path in paths:
        target = folder / "damaged.zarr"  # under the name that all will have
        shutil.copytree(path, target)
        given = options if path.stem == "region" else ()
        known = dict(outcomes(target, folder, given))
        wrong = [f"{name}: {text}" for name, text in known.items() if text.startswith("failed")]
        assert not wrong, f"{path} is sound, and yet {wrong}"
        bases.append(Base(path, not path.name.startswith("older"), given, known))
        shutil.rmtree(target)
    return bases


def problems(
    target: Path, base: Base, folder: Path, must_notice: bool
) -> Iterator[tuple[str, str]]:
    """Yield everything that failed, or gave something else than of the sound volume."""
    for name, outcome in outcomes(target, folder, base.options):
        if outcome.startswith("failed"):
            yield name, outcome
        elif name.startswith("check"):
            continue  # what it says is about the damage
        elif must_notice and outcome not in (base.known[name], "refused"):
            yield name, f"gave {outcome} and not {base.known[name]}"


def outcomes(target: Path, folder: Path, options: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield what every method and every command gives: a digest, "refused" or "failed …"."""
    for name, method in METHODS.items():
        yield name, outcome_of(lambda method=method: method(open_volume(target)))
    for name in ("summary", "resume"):  # those that write come last, each to a volume of its own
        commands = COMMANDS if name == "summary" else WRITING
        for words in commands:
            place = target
            if commands is WRITING:
                place = folder / "written.zarr"
                shutil.rmtree(place, ignore_errors=True)
                shutil.copytree(target, place, symlinks=True)
            yield words, outcome_of(lambda w=words, p=place: command(w, p, folder, options))


def outcome_of(action: Callable[[], Any]) -> str:
    """Return what an action gives, in a few words."""

    def ring(signum: int, frame: Any) -> None:
        raise TimeoutError(f"took more than {PATIENCE} s")

    # of processor time, so that a busy machine is no hang; who waits for nothing has an hour
    before = {kind: signal.signal(kind, ring) for kind in (signal.SIGPROF, signal.SIGALRM)}
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    signal.alarm(3600)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return digest(action())
    except AaamsError as error:
        return "refused" if len(str(error).splitlines()) == 1 else f"failed: lines {error!r}"
    except BaseException:
        return f"failed: {traceback.format_exc()}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        for kind, handler in before.items():
            signal.signal(kind, handler)


def digest(value: Any) -> str:
    """Return a digest of a value of whatever kind."""
    made = hashlib.sha256()

    def add(part: Any) -> None:
        if isinstance(part, np.ndarray | np.generic):
            made.update(f"{part.dtype}{part.shape}".encode())
            for name in part.dtype.names or ():
                add(part[name])
            if part.dtype.names is None:
                made.update(np.ascontiguousarray(part).tobytes())
        elif isinstance(part, dict):
            add(sorted(part.items(), key=repr))
        elif isinstance(part, list | tuple):
            made.update(f"{len(part)}".encode())
            for entry in part:
                add(entry)
        else:
            made.update(repr(part).encode())

    add(value)
    return made.hexdigest()[:12]


def _some(volume: Any) -> int:
    return int(volume.segments(3)["id"][-1])


METHODS: dict[str, Callable[[Any], Any]] = {
    "facts": lambda v: [repr(v).split(":")[-1], v.complete, v.ended, v.frame_count, v.has_levels],
    "header": lambda v: [v.header.to_record(), v.params.to_dict(), v.source, v.version],
    "ids": lambda v: [v.ids[t] for t in range(len(v.ids))],
    "ids slice": lambda v: v.ids[::-3, 5:9],
    "video": lambda v: v.video[:],
    "times": lambda v: [v.times, v.time_span],
    "counts": lambda v: v.counts.to_record(),
    "merge_count": lambda v: v.merge_count,
    "segments": lambda v: [v.segments(t) for t in range(v.frame_count)],
    "adjacency": lambda v: [v.adjacency(t) for t in range(v.frame_count)],
    "events_at": lambda v: [v.events_at(t) for t in range(v.frame_count)],
    "events": lambda v: v.events,
    "tracks": lambda v: v.tracks,
    "table": lambda v: [v.table(name) for name in ("segments", "adjacency", "events")],
    "row_count": lambda v: [v.row_count(name) for name in ("segments", "adjacency", "events")],
    "offsets": lambda v: [v.offsets(name) for name in ("segments", "adjacency", "events")],
    "mask": lambda v: v.mask(_some(v), 3),
    "crop": lambda v: v.crop(_some(v), 3).rgb,
    "tube": lambda v: [crop.mask for crop in v.tube(_some(v))],
    "neighbours": lambda v: v.neighbours(_some(v), 3),
    "lineage": lambda v: v.lineage(_some(v)).events,
    "pool": lambda v: v.pool(np.ones((v.height, v.width)), 3),
    "groups": lambda v: [v.groups(segments=4), v.groups(level=1)],
    "objects": lambda v: v.objects(3),
    "at": lambda v: (lambda w: [w.ids[:], w.segments(3), w.adjacency(3), w.events_at(3)])(
        v.at(segments=4)
    ),
    "tables at": lambda v: (lambda w: [w.events, w.tracks, w.counts.to_record(), w.merges_done])(
        v.at(level=2)
    ),
    "all rows at": lambda v: (lambda w: [w.table("segments"), w.table("adjacency"), repr(w)])(
        v.at(segments=5)
    ),
    "bounds at": lambda v: (lambda w: [w.offsets("segments"), w.row_count("adjacency")])(
        v.at(segments=5)
    ),
    "only": lambda v: (lambda w: [w.shown, w.ids[4], w.tracks])(v.only(v.objects(2))),
    "require_chunks": lambda v: v.require_chunks(),
    "replay": lambda v: [frame.ids for frame in replay(v)],
}
COMMANDS = (
    "info VOLUME --json",
    "info VOLUME --at 4",
    "check VOLUME --json",
    "check VOLUME",
    "render VOLUME -o OUT.mp4",
    "render VOLUME -o OUT.mp4 --at 4",
    *(
        f"export VOLUME --to {name} -o OUT"
        for name in ("csv", "parquet", "coco.json", "davis-png", "png16", "mot.txt")
    ),
    "export VOLUME --to csv -o OUT --at 4",
    "evaluate VOLUME TRUTH --json",
    "objects VOLUME -k 3 --json",
    "pack VOLUME OUT.zarr",
    "segment CLIP -o VOLUME",
)
WRITING = (
    "levels VOLUME",
    "levels VOLUME --overwrite --materialise 5",
    "segment CLIP -o VOLUME --with-video --resume",
    "check VOLUME --repair --json",
)


def command(words: str, volume: Path, folder: Path, options: tuple[str, ...]) -> Any:
    """Run a command; return what it printed and wrote, or raise what stands for its failure."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    names = {"VOLUME": volume, "CLIP": folder / "clip.mkv", "TRUTH": folder / "truth"}
    name, _, suffix = words.partition(" --to ")[2].partition(" ")[0].partition(".")
    line = []
    for word in words.replace(f"--to {name}.{suffix}", f"--to {name}").split():
        if word.startswith("OUT"):
            word = str(out / f"out{'.' + suffix if suffix else word.removeprefix('OUT')}")
        line.append(str(names.get(word, word)))
    line += (*SETTINGS, *options) if words.startswith("segment") else ()
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        code = main(line)
    told = stderr.getvalue().splitlines()
    if code == 2 and words.startswith("check") and stdout.getvalue():
        return "damaged"
    if code == 2:
        if not told or not told[-1].startswith("error: ") or "Traceback" in stderr.getvalue():
            raise AssertionError(f"exit 2 with {told} and {stdout.getvalue()[:300]!r}")
        raise AaamsError(told[-1])
    if code:
        raise AssertionError(f"exit {code} with {told}")
    if words in WRITING:
        return content(volume)
    if words.startswith("pack"):
        return content(out / "out.zarr")
    if words.startswith("render"):
        return film(out / "out.mp4")
    if words.startswith("export"):
        return {file.name: file.read_bytes() for file in sorted(out.rglob("*")) if file.is_file()}
    lines = stdout.getvalue().replace(", ", "\n").splitlines()
    return [line for line in lines if "bytes" not in line]  # on disk, with what is damaged


def film(path: Path) -> list[Any]:
    """Return what frames a film has: the encoder's threads make them differ a little."""
    with av.open(str(path)) as container:
        return [(frame.width, frame.height, frame.pts) for frame in container.decode(video=0)]


def content(path: Path) -> Any:
    """Return what a volume holds."""
    volume = open_volume(path)
    tables = [volume.table(name) for name in ("segments", "adjacency", "events")]
    found = [volume.ids[:], *tables, volume.tracks, volume.times, volume.complete]
    return [*found, volume.hierarchy.merges] if volume.has_levels else found


VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 3, 7, 29, 2**31, 2**63, 2**64, 10**18, 10**400, 0.5, -0.0),
    *(1e308, "", "x", "0", "ids", "../..", "/etc", "\x00", "1/0", "1e9999999", "crc32c", "é" * 99),
    *([], {}, [[]], [1], [None], ["ids", 3], {"a": {}}, {"name": "bytes"}, [1e9] * 9),
]


def damage(path: Path, rng: random.Random) -> tuple[str, bool]:
    """Damage a volume at random; return how, and whether whole chunks changed places."""
    told, swapped = [], False
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        files = sorted(file for file in path.rglob("*") if file.is_file())
        if not files:
            break
        # as much metadata as chunks, and our own attributes more often than others
        kind = rng.random()
        documents = [file for file in files if file.name == "zarr.json"]
        chunks = [file for file in files if file.name != "zarr.json"]
        if kind < 0.15:
            file = path / "zarr.json"
        elif kind < 0.5 or not chunks:
            file = rng.choice(documents) if documents else rng.choice(files)
        else:
            file = rng.choice(chunks)
        if not file.is_file():
            continue
        how = None
        if file.name == "zarr.json" and rng.random() < 0.7:
            with contextlib.suppress(ValueError, RecursionError):  # it was spoilt before
                how = spoil_document(file, rng)
        if how is None:
            how = spoil_file(file, chunks, rng, path)
            swapped |= how.startswith("in its place")
        told.append(f"{file.relative_to(path)} {how}")
    return "; ".join(told), swapped


SPOILS = (
    *("gone", "cut", "empty", "flipped", "zeros", "noise", "longer", "folder", "swap", "loop"),
    *("parent gone", "parent a file"),
)


def spoil_file(file: Path, chunks: list[Path], rng: random.Random, volume: Path) -> str:
    """Do to a file what disks, copies and people do."""
    data = bytearray(file.read_bytes())
    how = rng.choice(SPOILS)
    if how == "gone":
        file.unlink()
    elif how == "cut":
        file.write_bytes(data[: rng.randrange(len(data) + 1) if data else 0])
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "flipped":
        for _ in range(rng.choice((1, 1, 8))):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
    elif how == "zeros":
        start = rng.randrange(len(data) + 1)
        file.write_bytes(bytes(data[:start]) + bytes(len(data) - start))
    elif how == "noise":
        file.write_bytes(rng.randbytes(rng.choice((3, len(data), 5000))))
    elif how == "longer":
        file.write_bytes(bytes(data) + rng.randbytes(rng.choice((1, 4, 300))))
    elif how == "folder":
        file.unlink()
        file.mkdir()
    elif how == "swap" and chunks and file.name != "zarr.json":
        other = rng.choice(chunks)
        file.write_bytes(other.read_bytes())
        how = f"in its place {other.parent.parent.name}/{other.parent.name}/{other.name}"
    elif how == "loop":
        file.unlink()
        file.symlink_to(file.name)
    elif how.startswith("parent") and file.parent != volume:
        shutil.rmtree(file.parent)
        if how == "parent a file":
            file.parent.write_bytes(data)
    else:
        file.unlink()
    return how


def spoil_document(file: Path, rng: random.Random) -> str:
    """Change one thing in a metadata document, or what it is written in."""
    text = file.read_text()
    document = json.loads(text)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        entries = node.items() if isinstance(node, dict) else enumerate(node)
        for key, value in list(entries):
            places.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    walk(document)
    how = rng.choice(["value", "value", "value", "number", "delete", "add", "deep", "twice", "nan"])
    node, key = rng.choice(places)
    if how == "value":
        node[key] = rng.choice(VALUES)
    elif how == "number":
        numbers = [(n, k) for n, k in places if isinstance(n[k], int) and n[k] is not True]
        node, key = rng.choice(numbers)
        node[key] = node[key] + rng.choice((-1, 1, 8, 1000, 10**12, -(10**6)))
    elif how == "delete":
        del node[key]
    elif how == "add":
        document[rng.choice(["must_understand", "consolidated_metadata", "x"])] = rng.choice(VALUES)
    text = json.dumps(document)
    if how == "deep":
        text = text.replace(":", ": " + "[" * 50_000 + "]" * 50_000 + ', "x":', 1)
    elif how == "twice":
        text = text[: len(text) // 2] + text
    elif how == "nan":
        text = text.replace(": 0", ": NaN", 1)
    file.write_text(text)
    shown = repr(node[key])[:40] if how in ("value", "number") else ""
    return f"{how} {key if how in ('value', 'number', 'delete') else ''} {shown}".strip()
