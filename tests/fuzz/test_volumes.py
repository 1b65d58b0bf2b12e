"""A short, seeded stretch of the campaign of damaged volumes; `python -m tests.fuzz` goes on."""

from __future__ import annotations

import random
import shutil
import signal

import pytest
from support import standin

from fuzz import volumes

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs an alarm clock")


@pytest.fixture(autouse=True)
def _tiny_segmenter(monkeypatch):
    standin.take_over(monkeypatch)


def test_damaged_volumes_are_refused_or_read_rightly(tmp_path):
    failures = volumes.campaign(8, 0, tmp_path)
    assert not failures, "\n\n".join(failures)


def test_the_campaign_would_notice(tmp_path, monkeypatch):
    """Readers that take a missing chunk for zeros, as Zarr does, are found out."""
    (base, *_) = volumes.build_bases(tmp_path)
    monkeypatch.setattr(volumes.store.stored.StoredArray, "require", lambda *_: None)
    target = shutil.copytree(base.path, tmp_path / "damaged.zarr")
    (target / "labels/ids/0/c/1/0/0").unlink()
    found = dict(volumes.problems(target, base, tmp_path, must_notice=True))
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
