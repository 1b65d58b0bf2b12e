"""Every format by its name, and what all of them have in common."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aaams_stream import files
from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.export import geff, masks, rerun, tables
from aaams_stream.export.selection import Chosen, Selection
from aaams_stream.paths import expanded

if TYPE_CHECKING:
    from aaams_stream.store import Volume

_OURS = re.compile(
    r"\d{5,}\.png|ids\.csv|(segments|adjacency|events|tracks)\.(csv|parquet)"
    r"|zarr\.json|nodes|edges"
)
Write = Callable[[Chosen, Path, Callable[[], None]], None]


@dataclass(frozen=True, slots=True)
class Format:
    """One way to export."""

    write: Write
    suffix: str | None  # of the one file it writes; None: a folder of files


def _write_tables(chosen: Chosen, folder: Path, step: Callable[[], None], *, suffix: str) -> None:
    for name in tables.TABLES:
        _write_table(chosen, folder / f"{name}{suffix}", name)
    for _ in chosen:
        step()


def _write_table(chosen: Chosen, path: Path, name: str) -> None:
    write = tables.write_parquet if path.suffix == ".parquet" else tables.write_csv
    write(chosen.rows(name), path)


def _write_mot(chosen: Chosen, path: Path, step: Callable[[], None]) -> None:
    """Write boxes as the MOT challenge has them: frame and corner count from 1."""
    with path.open("w", encoding="ascii") as file:
        for index, t in enumerate(chosen, start=1):
            rows = chosen.segments(t)
            for name, (x0, y0, x1, y1) in zip(rows["id"], rows["bbox"].tolist(), strict=True):
                box = f"{x0 + 1},{y0 + 1},{x1 - x0},{y1 - y0}"
                file.write(f"{index},{name},{box},1,-1,-1,-1\n")
            step()


FORMATS = {
    "parquet": Format(partial(_write_tables, suffix=".parquet"), None),
    "csv": Format(partial(_write_tables, suffix=".csv"), None),
    "coco": Format(masks.write_coco, ".json"),
    "davis-png": Format(masks.write_davis, None),
    "png16": Format(masks.write_png16, None),
    "mots-png": Format(masks.write_mots, None),
    "mot": Format(_write_mot, ".txt"),
    "geff": Format(geff.write_geff, None),
    "rrd": Format(rerun.write_rrd, ".rrd"),
}


def export_volume(
    volume: Volume,
    to: str,
    output: str | Path,
    selection: Selection | None = None,
    *,
    partial: bool = False,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    pictures: Sequence[str] | None = None,
) -> int:
    """Export a volume in one of FORMATS; return the number of frames.

    output: a folder or a file, as the format has it; it appears whole or not at all. partial:
    export what is there of a volume that is not complete. progress: called with frames done and
    all. pictures: the name of each frame's image, which `coco` gives; see `picture_names`.
    """
    if to not in FORMATS:
        raise ConfigError(f"{to!r} is no format; expected one of {', '.join(FORMATS)}")
    if not volume.frame_count:
        raise SinkError(f"{volume.path}: holds no frames yet, so there is nothing to export")
    if not volume.complete and not partial:
        raise SinkError(
            f"{volume.path}: is not complete ({volume.frame_count} frames so far); finish it with "
            "segment --resume, or export what is there with --partial"
        )
    path = expanded(output)
    _check_target(path, FORMATS[to], overwrite, volume.source)
    chosen = Chosen(volume, selection or Selection(), pictures)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, len(chosen.frames))

    with files.Draft(path) as draft:
        if FORMATS[to].suffix is None:
            draft.mkdir()
        FORMATS[to].write(chosen, draft, step)
    return len(chosen.frames)


def _check_target(path: Path, form: Format, overwrite: bool, spec: str) -> None:
    """Refuse what is in the way before anything is computed."""
    source = Path(spec) if os.path.isabs(spec) else None  # as that of every file and folder is
    suffixes = None if form.suffix is None else [form.suffix]
    files.check_target(
        path, suffixes, overwrite=overwrite, apart={"the source": source}, ours=_OURS
    )
    if not path.absolute().parent.is_dir():
        raise SinkError(f"{path}: the folder {path.parent} does not exist; create it first")
