"""A short, seeded stretch of the campaign of damaged volumes; `python -m tests.fuzz` goes on."""

from __future__ import annotations

import random
import shutil
import signal

import pytest
from support import standin

from fuzz import volumes

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs an alarm clock")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with sound volumes, and these."""
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        standin.take_over(patch)
        yield folder, volumes.build_bases(folder)


def test_damaged_volumes_are_refused_or_read_rightly(made):
    folder, bases = made
    failures = volumes.campaign(6, 0, folder, bases=bases)
    assert not failures, "\n\n".join(failures)


def test_the_campaign_would_notice(made, monkeypatch):
    """Readers that take a missing chunk for zeros, as Zarr does, are found out."""
    folder, (base, *_) = made
    monkeypatch.setattr(volumes.store.stored.StoredArray, "require", lambda *_: None)
    monkeypatch.setattr(volumes, "COMMANDS", ())
    monkeypatch.setattr(volumes, "WRITING", ())
    target = shutil.copytree(base.path, folder / "lacking.zarr")
    (target / "labels/ids/0/c/1/0/0").unlink()
    found = dict(volumes.problems(target, base, folder, must_notice=True))
    assert {"ids", "ids slice", "at", "replay"} <= set(found)


def test_damage_is_drawn_from_the_seed(tmp_path):
    told = []
    for name in ("a", "b"):
        folder = tmp_path / name
        (folder / "labels").mkdir(parents=True)
        (folder / "zarr.json").write_text('{"attributes": {"x": [1, 2, {"y": 3}]}}')
        (folder / "labels" / "chunk").write_bytes(bytes(99))
        told.append([volumes.damage(folder, random.Random(seed)) for seed in range(3)])
    assert told[0] == told[1]
