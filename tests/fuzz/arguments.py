"""Command lines as nobody should write them: exit code 0, or 2 and an error in a line."""

from __future__ import annotations

import os
import random
import shutil
import signal
import string
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from support import standin
from support.clips import moving_frames, write_clip, write_images
from support.volumes import files

from aaams_stream.cluster.door import segment_video
from aaams_stream.errors import SourceError
from aaams_stream.run.progress import Progress
from aaams_stream.run.segment_video import Interrupted
from fuzz.harness import called, what_is_wrong_with

# Words that stand for what lies in the folder of the check, and others.
_INPUTS = (
    "clip.mkv",
    "clip.y4m",
    "images",
    "images/*.png",
    "demo",
    "text.txt",
    "empty",
    "volume.zarr",
)
_NAMES = (
    *_INPUTS,
    *("new.zarr", "new.mp4", "new.png", "new.npy", "new.json", "new.txt", "new", "deep/new.zarr"),
    *(
        "photo.png",
        "half.zarr",
        "truth",
        "set.toml",
        "realtime",
        "-",
        "",
        ".",
        "..",
        "/",
        "~",
        "~nobody",
    ),
    *("a\0b", "a\nb", "\udcff", "é" * 300, "x" * 300, "*", "[", "camera:0", "camera:x", "http://"),
    *("http://127.0.0.1:9/a", "file:///nothing", "://", "rtsp://[", "/dev/null", "/proc/self/mem"),
)
_VALUES = (
    *("0", "1", "-1", "2", "25", "1.5", "1e9", "1e400", "nan", "inf", "-inf", "9" * 30, "9" * 5000),
    *("3,3", "2:9,30", "64,48", "-1,0", "0:1,1", "300:1,1", ",", "1,", "local:0", "local:x"),
    *("0:01", "1:2:3:4", "1/0", "1/3", "64x48", "0x0", "64x", "x", "1x1", "99999x99999", "64X48"),
    *("²", "٣", "1_0", " 1", "True", "None", "{}", "boundaries", "objects", "csv", "coco", "mot"),
    *("png16", "davis-png", "parquet", "post.level=1", "post.level", "a.b=1", "stream.segments=9"),
)
OPTIONS = {
    "segment": ["-o", "--start", "--duration", "--every", "--size", "--segments", "--with-video",
                "--overlay", "--at", "--mask", "--stretch", "--dask", "--resume",
                "--overwrite", "--config", "--set", "--threads", "--json", "--quiet"],
    "info": ["--at", "--level", "--json"],
    "render": ["-o", "--view", "--at", "--level", "--source", "--partial", "--overwrite", "--json",
               "--quiet"],
    "export": ["--to", "-o", "--min-area", "--max-area", "--min-life", "--start", "--duration",
               "--partial", "--at", "--level", "--overwrite", "--json", "--quiet"],
    "evaluate": ["--ignore", "--at", "--level", "--json", "--quiet"],
    "follow": ["-o", "--click", "--not", "--mask", "--frame", "--backwards", "--at", "--level",
               "--source", "--overwrite", "--config", "--set", "--json", "--quiet"],
    "image": ["-o", "--segments", "--overlay", "--config", "--set", "--json", "--quiet"],
    "pack": ["--overwrite", "--json", "--quiet"],
    "objects": ["-k", "--to", "-o", "--overwrite", "--json", "--quiet"],
    "check": ["--repair", "--source", "--json", "--quiet"],
    "levels": ["--materialise", "--overwrite", "--json", "--quiet"],
    "preview": ["--size", "--segments", "--fps", "--start", "--once", "--window", "--port",
                "--host", "--token", "--folder", "--with-video", "--config", "--set"],
    "batch": ["-o", "--jobs", "--start", "--every", "--size", "--segments", "--at", "--overlay",
              "--resume", "--overwrite", "--set", "--json", "--quiet"],
}  # fmt: skip
_ALONE = {
    "--with-video",
    "--resume",
    "--overwrite",
    "--json",
    "--quiet",
    "--partial",
    "--once",
    "--repair",
    "--backwards",
}
_ALONE |= {"--window"}
_NAMED = {"-o", "--overlay", "--config", "--source", "--folder", "--mask"}
_INPUT = {"evaluate": 2, "pack": 2}  # commands of more than one name without an option
_OPENS_VOLUME = {"info", "render", "export", "evaluate", "objects", "levels", "check", "pack"}
_KEPT = ("clip.mkv", "clip.y4m", "images", "text.txt", "photo.png", "truth", "set.toml")


class Case(NamedTuple):
    """One command line."""

    words: tuple[str, ...]

    def __repr__(self) -> str:
        return " ".join(repr(word[:60]) for word in self.words)


def cases(seed: int) -> Iterator[Case]:
    """Draw command lines, most of them nearly right."""
    rng = random.Random(seed)
    while True:
        command = rng.choice(sorted(OPTIONS))
        words = [_input(rng, command) for _ in range(_INPUT.get(command, 1))]
        wanted = [o for o in ("-o", "--to") if o in OPTIONS[command] and rng.random() < 0.9]
        wanted = [] if command == "objects" else wanted
        wanted += ["--click"] * (command == "follow" and rng.random() < 0.8)
        for option in wanted + rng.sample(OPTIONS[command], rng.choice((0, 1, 1, 2, 3))):
            words += [option] if option in _ALONE else [option, _argument(rng, option)]
        words.insert(0, command)
        if rng.random() < 0.05:
            words.insert(rng.randrange(len(words) + 1), rng.choice((*_NAMES, *_VALUES)))
        if rng.random() < 0.05:
            del words[rng.randrange(len(words))]
        yield Case(tuple(words))


def _input(rng: random.Random, command: str) -> str:
    if rng.random() < 0.3:
        return rng.choice(_NAMES)
    if command in _OPENS_VOLUME:
        return rng.choice(("volume.zarr", "volume.zarr", "half.zarr"))
    return rng.choice(_INPUTS)


def _argument(rng: random.Random, option: str) -> str:
    if rng.random() < 0.05:
        return "".join(rng.choices(string.printable, k=rng.randrange(12)))
    if option in _NAMED and rng.random() < 0.9:
        return rng.choice(_NAMES)
    return rng.choice(_VALUES)


class Check:
    """Runs a command in a folder with a film, a volume and half a volume, all made anew."""

    def __init__(self, folder: Path) -> None:
        sys.modules.update(standin.modules())  # labels are not at stake here
        from aaams_stream.cli import options, preview
        from aaams_stream.run import batch

        def served(*_: object) -> None:
            raise SourceError("a preview is not begun here")

        def done(tasks: list[object], *_: object) -> list[object]:
            return []  # what would be done is planned, which is what words can break

        preview.open_loop = served
        batch.run_batch = done
        options.say_if_cold = lambda quiet: None
        self._model, self._folder = folder / "model", folder / "try"
        self._fill(self._model)
        self._kept = self._precious(self._model)
        self._fresh: object = None  # how the folder looks before a command

    def _fill(self, folder: Path) -> None:
        folder.mkdir()
        os.chdir(folder)
        frames = moving_frames(12)
        write_clip(Path("clip.mkv"), frames)
        write_clip(Path("clip.y4m"), frames, codec="wrapped_avframe", pix_fmt="gray")
        write_images(folder / "images", frames[:3], "{}.png")
        Path("text.txt").write_text("no film")
        Path("empty").mkdir()
        Path("set.toml").write_text("[post]\nlevel = 2.0\n")
        cv2.imwrite("photo.png", frames[0])
        Path("truth").mkdir()
        for n in range(12):
            cv2.imwrite(f"truth/{n}.png", np.eye(48, 64, dtype=np.uint8))
        assert called(["segment", "clip.mkv", "-o", "volume.zarr"])[0] == 0

        def press(progress: Progress) -> None:
            if progress.frames == 3:
                signal.raise_signal(signal.SIGINT)

        with suppress(Interrupted):
            segment_video("clip.mkv", "half.zarr", progress=press)

    def _precious(self, folder: Path) -> dict[str, bytes]:
        return {name: data for name, data in files(folder).items() if name.startswith(_KEPT)}

    def __call__(self, case: Case) -> str | None:
        if self._fresh is None or _look(self._folder) != self._fresh:
            os.chdir(self._model)
            shutil.rmtree(self._folder, ignore_errors=True)
            shutil.copytree(self._model, self._folder)
            self._fresh = _look(self._folder)
        os.chdir(self._folder)
        kept = os.environ.get("AAAMS_THREADS")
        try:
            wrong = what_is_wrong_with(*called(list(case.words)))
        finally:
            os.environ.pop("AAAMS_THREADS", None)
            if kept is not None:
                os.environ["AAAMS_THREADS"] = kept
        if wrong is not None or _look(self._folder) == self._fresh:
            return wrong
        changed = self._precious(self._folder) != self._kept
        return "it changed what it was given" if changed and not self._meant(case) else None

    def _meant(self, case: Case) -> bool:
        """Whether a file that is there was named as the output, with leave to replace it."""
        if case.words[0] == "image":  # which asks no leave
            return True
        return case.words[0] in ("render", "export", "objects") and "--overwrite" in case.words


def _look(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file, by which a change shows."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            at = os.lstat(os.path.join(place, name))
            found[os.path.join(place, name)] = (at.st_size, at.st_mtime_ns)
    return found
