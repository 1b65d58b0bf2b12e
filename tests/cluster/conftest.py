"""What tests of films in parts share: a drawn film, its volume of one pass, and two workers."""

from __future__ import annotations

import pytest
from support.clips import write_clip
from support.scenes import drawn_film
from support.volumes import files

from aaams_stream.cluster.connect import connected
from aaams_stream.params import Params
from aaams_stream.run.segment_video import Job, run_job

SETTINGS = Params().updated({"stream": {"segments": 16, "refresh": 7}})
SPACING = 8  # frames: so that a short film has many parts


@pytest.fixture(autouse=True)
def no_thread_left_behind():
    """Count none: Dask begins threads as it needs them, for as long as a client lives."""


@pytest.fixture(scope="session")
def film(tmp_path_factory):
    """Return a clip of six scenes, with a dissolve and a flash."""
    return write_clip(tmp_path_factory.mktemp("film") / "film.mkv", drawn_film())


@pytest.fixture(scope="session")
def one_pass(film, tmp_path_factory, compiled):
    """Return the files of the volume that a single pass writes, with its pictures."""
    store = tmp_path_factory.mktemp("one") / "film.zarr"
    run_job(Job(film, store, SETTINGS, with_video=True))
    return files(store)


@pytest.fixture
def job(film, tmp_path):
    return Job(film, tmp_path / "film.zarr", SETTINGS, with_video=True)


@pytest.fixture(scope="session")
def client(compiled):
    """Return the client of two workers of one thread each."""
    with connected("local:2") as client:
        yield client
