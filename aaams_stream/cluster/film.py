"""One film in parts: what is to be done next, until its volume is complete.

Progress lives on disk: the survey, and parts that are complete by their own word. So whoever begins
again finds what is done, and whoever dies costs no more than what he was at.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from aaams_stream.cluster.chain import Chain
from aaams_stream.cluster.part import segment_part
from aaams_stream.cluster.plan import (
    Request,
    Start,
    Survey,
    clear_stop_signs,
    our_files,
    survey_film,
)
from aaams_stream.errors import SinkError
from aaams_stream.store import VolumeWriter
from aaams_stream.store.join import (
    PartTables,
    build_final,
    finish_join,
    join_final,
    join_tables,
)
from aaams_stream.store.stitch import Overlaps, find_overlaps, stitch

SURVEY, PART, OVERLAP, ASSEMBLY = "survey", "part", "overlap", "assembly"
_FIRST = 1e12  # priority of what others wait for


class Task(NamedTuple):
    """Something to be done, wherever there is somebody to do it."""

    kind: str
    number: int  # of its kind: the first frame of a part
    work: Callable[..., Any]
    arguments: tuple[Any, ...]
    priority: float  # the highest first


class Film:
    """A film under way: takes in what was done, and says what is to be done next."""

    def __init__(self, request: Request, writer: VolumeWriter) -> None:
        self.request = request
        self.writer = writer
        self.complete = False
        self.survey = Survey(request.header)
        self.frames: dict[int, int] = {}  # that each part has so far
        self.needless: set[int] = set()  # parts whose beginning no scene begins with
        self._chain = Chain(request)
        self._begun: set[int] = set()
        self._done: dict[int, PartTables] = {}
        self._overlaps: dict[int, Overlaps] = {}
        self._assemblies = 0
        self._outstanding = 0  # of assembly
        clear_stop_signs(request)

    @property
    def total(self) -> int | None:
        """How many frames there are, once that is known."""
        return self.survey.frames if self.survey.complete else None

    @property
    def done(self) -> int:
        """How many frames are segmented, without those that are done twice."""
        frames = self.frames.items()
        return sum(count for begin, count in frames if begin not in self.needless)

    @property
    def parts(self) -> tuple[int, int]:
        """How many parts are done, and how many are known of."""
        return len(self._done.keys() - self.needless), len(self._starts()) - len(self.needless)

    @property
    def ended(self) -> str:
        """How the source ended."""
        return self.survey.ended

    def begin(self) -> list[Task]:
        """Return what is to be done first."""
        return [Task(SURVEY, 0, survey_film, (self.request,), _FIRST)]

    def take(self, task: Task, result: Any) -> None:
        """Take in what came of a task."""
        if task.kind == SURVEY:
            self.survey = result
        elif task.kind == ASSEMBLY:
            self._outstanding -= 1
        elif task.kind == OVERLAP:
            self._overlaps[task.number] = result
        elif result is None:  # it was stopped
            self._begun.discard(task.number)
        else:
            self._done[task.number] = result
            self.frames[task.number] = result.frames

    def next(self) -> list[Task]:
        """Return what can be begun now; when all is done, the volume is complete."""
        if not self.survey.complete:
            found = Survey.load(self.request.folder)
            if found is not None and found.header == self.request.header:
                self.survey = found
        tasks = self._overlaps_due() if self.request.length else []
        self._extend()
        tasks += self._parts_due()
        at_end = self._at_end()
        for work, arguments in self._chain.assembly(at_end):
            tasks.append(Task(ASSEMBLY, self._assemblies, work, arguments, _FIRST))
            self._assemblies += 1
            self._outstanding += 1
        if at_end and not self._outstanding:
            self._finish()
        return tasks

    def passed(self) -> list[int]:
        """Return parts that turn out to be needless: one that counts has passed their beginning.

        Those that are under way are stopped.
        """
        if self.request.length:
            return []
        head = self._chain.end
        reached = head + self.frames.get(head, 0)
        starts = (start.frame for start in self.survey.starts)
        passed = {
            frame
            for frame in starts
            if (frame < head and frame not in {p.begin for p in self._chain.pieces})
            or head < frame < reached
        }
        new = sorted(passed - self.needless)
        self.needless |= passed
        for frame in new:
            if frame in self._begun and frame not in self._done:
                self.request.stop_sign(frame).touch()
        return new

    def stop(self) -> None:
        """Have all parts finish the chunk at hand."""
        with suppress(OSError):
            self.request.stop_sign().touch()

    def _starts(self) -> list[Start]:
        """Return the beginnings of parts that are known of."""
        starts = list(self.survey.starts)
        lead = self.request.lead
        if lead and self.survey.complete:  # a stretch of nothing but lead is none
            starts = [s for s in starts if not s.frame or s.frame + lead < self.survey.frames]
        return starts

    def _parts_due(self) -> list[Task]:
        tasks = []
        starts = self._starts()
        ends = [start.frame + self.request.lead for start in starts[1:]]
        # the last one's end is not known before that of the film, nor is that of one whose
        # successor may turn out to be nothing but lead
        if self.survey.complete:
            ends.append(self.survey.frames)
        elif self.request.length:
            ends = ends[:-1]
        elif not ends:  # nobody else has anything to do
            ends = [start.frame + self.request.spacing for start in starts]
        for start, end in zip(starts, ends, strict=False):
            if start.frame in self._begun | self.needless:
                continue
            self._begun.add(start.frame)
            stop = end if self.request.length else None
            # the longest first, or the last to be begun would be waited for
            length = float(end - start.frame)
            arguments = (self.request, start, stop)
            tasks.append(Task(PART, start.frame, segment_part, arguments, length))
        return tasks

    def _overlaps_due(self) -> list[Task]:
        """Return what tells which ids of two neighbours are the same, where both are done."""
        tasks = []
        frames = [start.frame for start in self._starts()]
        for before, here in itertools.pairwise(frames):
            if here in self._done and before in self._done and here not in self._overlaps:
                one, other = self._done[before], self._done[here]
                self._overlaps[here] = Overlaps.unknown()
                arguments = (one.path, other.path, self.request.lead)
                tasks.append(Task(OVERLAP, here, find_overlaps, arguments, _FIRST))
        return tasks

    def _extend(self) -> None:
        """Add to the chain the parts that follow it and are done."""
        chain, lead = self._chain, self.request.lead
        while True:
            begin = chain.end - lead if chain.pieces and self.request.length else chain.end
            part = self._done.get(begin)
            if part is None:
                return
            if not chain.pieces or not self.request.length:
                chain.add_scene(part)
                continue
            overlaps = self._overlaps.get(begin)
            if overlaps is None or not overlaps.known:
                return
            before = chain.parts[-1], chain.pieces[-1]
            seam = stitch(*before, part, lead, overlaps, chain.identities)
            chain.identities = seam.identities
            chain.add(part, lead, seam.lookup, seam.ages, seam.events)

    def _at_end(self) -> bool:
        return self.survey.complete and self._chain.end >= self.survey.frames > 0

    def _finish(self) -> None:
        """Write what is left of the volume; the parts go away."""
        chain, writer = self._chain, self.writer
        if chain.end != self.survey.frames:
            raise SinkError(
                f"{writer.path}: the source changed on the way ({self.survey.frames} frames were "
                f"seen first, then {chain.end}); use --overwrite"
            )
        events = np.concatenate(chain.events)
        join_tables(writer, chain.pieces, chain.parts, events)
        stretched = self.request.length > 0
        final = build_final(writer) if stretched else join_final(chain.pieces, chain.parts)
        finish_join(writer, final, events, self.ended)
        self.complete = True
        remove_parts(self.request)


def remove_parts(request: Request) -> None:
    """Remove the parts of a film; what is not ours stays, and the folder with it."""
    if not request.folder.is_dir():
        return
    for path in list(our_files(request.folder)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    with suppress(OSError):
        request.folder.rmdir()
