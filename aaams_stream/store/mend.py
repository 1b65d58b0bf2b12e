"""Taking what is damaged in a volume from another one that was made of the same source."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from aaams_stream.errors import SinkError
from aaams_stream.model import same_source
from aaams_stream.store.additions import materialise
from aaams_stream.store.check import Report
from aaams_stream.store.folders import is_volume
from aaams_stream.store.layout import COPY, INTERRUPTED, KEY, Header, array_in, open_group, video_in
from aaams_stream.store.lock import WriteLock
from aaams_stream.store.root import drop_partial_files, open_root, root_to_write
from aaams_stream.store.sweep import STATE, Part, parts
from aaams_stream.store.validate import check_nodes, read_record, sealed
from aaams_stream.store.writer import VolumeWriter, sink_errors

_COARSE = "coarse_"


def read_header(path: Path) -> Header:
    """Return what a volume is about, however damaged the rest of it is."""
    return Header.from_record(read_record(path))


def finish_as_it_is(path: Path, version: str) -> bool:
    """Complete a sound volume with the frames that count, if nobody can go on with it otherwise.

    Returns whether it was: not where there are none, where the source can be read again, or where
    another `version` began it.
    """
    record = read_record(path)
    live = record["source"]["fingerprint"] is None
    if record["complete"] or not record["frames_committed"] or not live:
        return False
    if record["version"] != version:
        return False
    with sink_errors(path):
        root, lock = root_to_write(path)
        try:
            VolumeWriter(path, root, lock).finish(INTERRUPTED)
        finally:
            lock.release()
    return True


class Mending:
    """The right to write to a damaged volume, and a place beside it for a second one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.scratch = path.with_name(f".{path.name}.repair")
        with sink_errors(path):
            self._lock = WriteLock(path, path)

    def begun_by(self, version: str) -> bool:
        """Whether an earlier repair left a second volume that can be gone on with."""
        if not is_volume(self.scratch):
            return False
        try:
            record, ours = read_record(self.scratch), read_record(self._path)
            open_root(self.scratch)
        except SinkError:
            return False
        same = ("selection", "with_video", "roi")
        return (
            record["version"] == version
            and record["configuration"] == ours["configuration"]
            and all(record["source"].get(name) == ours["source"].get(name) for name in same)
            and same_source(ours["source"]["fingerprint"], record["source"]["fingerprint"])
        )

    def close(self) -> None:
        """Let others write to the volume."""
        self._lock.release()

    def take_over(self, report: Report) -> None:
        """Write what is damaged anew, from the second volume, once all else is found equal there.

        A SinkError if something sound differs, and nothing is changed. A crash on the way leaves
        the volume less damaged than before.
        """
        with sink_errors(self._path):
            drop_partial_files(self._path)
            record = read_record(self._path)
            for name in _coarse_names(self._path):
                materialise(self.scratch, int(name.removeprefix(_COARSE)))
            try:
                self._compare(report, record)
            except SinkError:
                shutil.rmtree(self.scratch)
                raise
            self._copy(record)

    def _compare(self, report: Report, record: dict[str, Any]) -> None:
        """Raise a SinkError unless all that is sound is the same in both."""
        ours = open_group(self._path)
        theirs = open_root(self.scratch)
        made: Any = theirs.attrs[KEY]
        if record["complete"] and made["frames_committed"] != record["frames_committed"]:
            raise self._differs(f"there are {made['frames_committed']} frames now")
        nodes: dict[str, str] = {}
        check_nodes(self._path, record, nodes)
        damaged = {damage.part for damage in report.damages}
        bad = [damage.frames for damage in report.damages if damage.frames is not None]
        for part in parts(ours, nodes.keys() | damaged):
            if part.table == STATE or part.table in damaged:
                continue
            other = video_in(theirs) if part.node == "0" else array_in(theirs, part.node)
            self._compare_part(part, other, damaged, bad)

    def _compare_part(
        self, part: Part, other: Any, damaged: set[str], bad: list[tuple[int, int]]
    ) -> None:
        for chunk in part.array.chunks_of((slice(0, part.rows),)):
            if part.array.name(chunk) in damaged:
                continue
            first, *rest = part.array.part(chunk)
            where = (slice(first.start, min(first.stop, part.rows)), *rest)
            if where[0].stop > other.shape[0]:
                raise self._differs(f"{part.node} has fewer rows")
            same = np.asarray(part.array[where] == other[where])
            equal = np.array(same.reshape(len(same), -1).all(axis=1))
            if part.table is None:  # a row is a frame: those found bad may differ
                for low, high in bad:
                    equal[max(0, low - first.start) : max(0, high - first.start)] = True
            if not equal.all():
                raise self._differs(f"chunk {part.array.name(chunk)} comes out otherwise")

    def _differs(self, what: str) -> SinkError:
        return SinkError(
            f"{self._path}: cannot be repaired: {what}, as of another version of this program or "
            "of the decoder; nothing was changed"
        )

    def _copy(self, record: dict[str, Any]) -> None:
        """Make every file of the volume that of the second one; the attributes come last."""
        files = sorted(file for file in self.scratch.rglob("*") if file.is_file())
        for file in files:
            name = file.relative_to(self.scratch)
            if name.parts not in (("zarr.json",), ("labels", "zarr.json")):
                write_whole(self._path / name, file.read_bytes())
        target, made = self._path / "zarr.json", self.scratch / "zarr.json"
        document, ours = json.loads(made.read_bytes()), json.loads(target.read_bytes())
        # where the frames came from stays what it was, and so does what others noted there
        noted = {n: v for n, v in ours["attributes"].items() if n not in document["attributes"]}
        mended = sealed({**document["attributes"][KEY], "source": record["source"]})
        document["attributes"] = {**document["attributes"], **noted, KEY: mended}
        labels = json.loads((self.scratch / "labels/zarr.json").read_bytes())
        labels["attributes"][COPY] = mended
        write_whole(self._path / "labels/zarr.json", json.dumps(labels, indent=2).encode())
        if document != ours:
            write_whole(target, json.dumps(document, indent=2).encode())
        if (self._path / STATE).exists():
            shutil.rmtree(self._path / STATE)


def write_whole(target: Path, data: bytes) -> None:
    """Write a whole file, unless it is there already."""
    if target.is_file() and target.read_bytes() == data:
        return
    if target.is_dir() and not target.is_symlink():  # in the place of a chunk
        shutil.rmtree(target)
    for folder in reversed(target.parents):  # a file in the place of a folder
        if folder.is_file():
            folder.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.0.partial")
    partial.write_bytes(data)
    os.replace(partial, target)


def _coarse_names(path: Path) -> list[str]:
    """Return the names of the coarse labels that lie in a volume."""
    return sorted(
        entry.name
        for entry in (path / "labels").glob(f"{_COARSE}*")
        if entry.name.removeprefix(_COARSE).isdecimal()
    )
