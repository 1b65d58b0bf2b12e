"""Mending a volume: its source is segmented again, and what is damaged is taken from that."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from aaams_stream import __version__
from aaams_stream import store as stores
from aaams_stream.errors import SinkError
from aaams_stream.model import Clip, same_source
from aaams_stream.params import Params
from aaams_stream.run.progress import Progress
from aaams_stream.run.segment_video import Job, run_job
from aaams_stream.source import open_source


def repair_volume(
    store: str | Path,
    *,
    source: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> stores.Report:
    """Mend what is damaged in a volume; return what is found in it then.

    source: where it is now, if not where the volume says. It is segmented from its beginning, as
    labels follow one frame after the other, into a volume beside this one; a repair that was
    stopped goes on there. All that is sound must come out as it is: if it does not, a SinkError
    says where, and nothing is changed. The result has the bytes of an unbroken run; a volume that
    was not complete is complete then. A root document that is damaged is written anew first, from
    what the volume repeats of it; if nothing else is damaged, no source is needed. A sound volume
    of a camera or a pipe whose run died is completed with the frames that count.
    """
    if not isinstance(place := stores.target_of(store), Path):
        raise SinkError(
            f"{place}: is mended only as a folder here, file by file; copy it, repair the copy, "
            "and put that in its place"
        )
    path = place.resolve()
    stores.restore_root(path)
    report = stores.check(path)
    if report.sound:
        return stores.check(path) if stores.finish_as_it_is(path, __version__) else report
    if stores.is_packed(path):
        raise SinkError(
            f"{path}: is packed and cannot be mended; pack it anew from the volume, or segment "
            "the source again"
        )
    header = stores.read_header(path)
    spec = source if source is not None else header.spec
    if header.fingerprint is None:
        raise SinkError(f"{path}: cannot be repaired: {spec} cannot be read a second time")
    if header.stretch is not None:
        raise SinkError(
            f"{path}: cannot be repaired, as it was made in stretches; segment {spec} again with "
            f"--stretch {header.stretch:g} and --overwrite"
        )
    size = header.selection.get("size")
    clip = Clip(**{**header.selection, "size": tuple(size) if size else None})
    with open_source(spec, clip) as opened:
        if not same_source(header.fingerprint, opened.fingerprint):
            raise SinkError(
                f"{path}: cannot be repaired: {spec} is not what it was made of; give that with "
                "--source"
            )
    with closing(stores.Mending(path)) as mending:
        begun = mending.begun_by(__version__)
        job = Job(
            source=spec,
            store=mending.scratch,
            params=Params().updated(header.configuration),
            clip=clip,
            with_video=header.with_video,
            roi=header.region,
            resume=begun,
            overwrite=not begun,
        )
        run_job(job, progress)
        mending.take_over(report)
        shutil.rmtree(mending.scratch)
    return stores.check(path)
