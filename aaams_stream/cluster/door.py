"""The door for films: in one pass here, or in parts, here or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from aaams_stream import store as stores
from aaams_stream.cluster.connect import prepare_workers
from aaams_stream.cluster.engines import DaskEngine, Engine, News, SerialEngine
from aaams_stream.cluster.film import Film
from aaams_stream.cluster.run import (
    Standing,
    finish_film,
    hear,
    prepare,
    progress_of,
    run_films,
    stopped_film,
)
from aaams_stream.model import Clip, Timecode
from aaams_stream.params import Params, resolve
from aaams_stream.paths import expanded
from aaams_stream.run.progress import Progress
from aaams_stream.run.region import read_roi
from aaams_stream.run.segment_video import Job, Summary, run_job

if TYPE_CHECKING:
    from distributed import Client
    from zarr.abc.store import Store


def segment_video(
    source: str | Path,
    store: str | Path | Store,
    params: Params | str | Path | None = None,
    *,
    segments: int | None = None,
    start: float | Fraction | Timecode | None = None,
    duration: float | Fraction | Timecode | None = None,
    every: int = 1,
    size: tuple[int, int] | None = None,
    with_video: bool = False,
    resume: bool = False,
    overwrite: bool = False,
    overlay: str | Path | None = None,
    at: int | None = None,
    roi: str | Path | ArrayLike | None = None,
    stretch: float | Fraction | None = None,
    client: Client | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Segment a video into the Zarr volume `store`.

    The first Ctrl-C finishes the chunk at hand and raises `Interrupted`, and so do SIGTERM and
    SIGHUP where the program has no handler of its own; another Ctrl-C stops at once, and the volume
    ends at its last commit. Either way it can be resumed.

    Args:
        source: a file, a folder or pattern of images, `camera:N`, an address, `-` or `demo`.
        store: the volume to write: a folder, an address (s3://, gs://, az://), or a store of Zarr.
        params: settings, a path to a TOML file or the name of a set; None for the defaults.
        segments: the wanted number per frame, instead of the settings'.
        start: seconds from the first frame at which to begin.
        duration: seconds of the source to segment.
        every: keep each n-th frame.
        size: width and height to scale the frames to.
        with_video: store the frames too.
        resume: continue a volume that is not complete, or begin one.
        overwrite: replace a volume.
        overlay: an MP4 to write beside it.
        at: the overlay shows about so many groups a frame in colours; it is drawn when all frames
            are there.
        roi: the region of interest, an image file or an array (h, w) of the frames' size, above 0
            where it is: the rest of each frame has id 0. It is kept in the volume.
        stretch: seconds after which another part begins that is segmented by itself, for a film
            without scene changes on many machines. Parts overlap a little and are stitched: the
            result is not that of one pass, but the same for any number of machines, or on this one.
        client: a client of Dask, whose workers segment parts of the video. The volume is that of
            one pass, byte for byte: without `stretch`, parts end where scenes do. Goes on with
            parts that are there, as if by `resume`.
        progress: called after every frame; with `client` or `stretch`, many times a second.

    Returns:
        What the run left behind.

    Raises:
        ConfigError: settings or arguments are wrong.
        SourceError: the source cannot be opened.
        SinkError: the volume is there already, or cannot be written.
        Interrupted: Ctrl-C or a signal, after the volume was brought to a valid end.

    Example:
        >>> import aaams_stream as aaams
        >>> summary = aaams.segment_video("demo", "demo.zarr", duration=0.25, size=(160, 120))
        >>> summary.frames, summary.complete
        (6, True)
    """
    settings = resolve(params)
    if segments is not None:
        settings = settings.updated({"stream": {"segments": segments}})
    job = Job(
        source=source,
        store=stores.target_of(store),
        params=settings,
        clip=Clip(start, duration, every, size),
        with_video=with_video,
        resume=resume,
        overwrite=overwrite,
        overlay=None if overlay is None else expanded(overlay),
        at=at,
        roi=read_roi(roi),
    )
    if client is None and stretch is None:
        return run_job(job, progress)
    return segment_in_parts(job, client, stretch, progress)


def segment_in_parts(
    job: Job,
    client: Client | None,
    stretch: float | Fraction | None,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """Segment a film in parts, by the workers of a cluster or, without a client, here."""
    film = prepare(job, stretch)
    if client is None:
        return _finished(_run_here(film, progress))
    try:
        warnings = [] if film.complete else prepare_workers(client, [film.request])
    except BaseException:
        film.writer.release()
        raise
    with closing(DaskEngine(client)) as engine:
        standing = run_films([film], engine, _watcher(engine, progress))[0]
        return _finished(standing, warnings)


def _run_here(film: Film, progress: Callable[[Progress], None] | None) -> Standing:
    standings: list[Standing] = []

    def tell(news: News) -> None:
        for standing in standings:
            hear(standing, news)
            if progress is not None:
                progress(progress_of(standing, engine.workers))

    engine = SerialEngine(tell)
    return run_films([film], engine, standings=standings)[0]


def _watcher(
    engine: Engine, progress: Callable[[Progress], None] | None
) -> Callable[[Sequence[Standing]], None]:
    def watch(standings: Sequence[Standing]) -> None:
        if progress is not None:
            progress(progress_of(standings[0], engine.workers))

    return watch


def _finished(standing: Standing, warnings: Sequence[str] = ()) -> Summary:
    """Return what became of a film, or raise it."""
    if standing.error is not None:
        raise standing.error
    if standing.stopped:
        raise stopped_film(standing)
    return finish_film(standing, warnings)
