"""What is counted as a volume is written, so that nobody reads whole tables to know it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from support.older import edit_record
from support.volumes import HEADER, VERSION, fill

from aaams_stream import store
from aaams_stream.model import EventKind
from aaams_stream.store import open_volume


def expected(results):
    events = np.concatenate([result.events for result in results])
    names = (EventKind(kind).name.lower() for kind in events["kind"])
    return max(int(result.ids.max()) for result in results), dict(Counter(names))


def counts_of(path):
    counts = open_volume(path).counts
    return counts.identities, dict(counts.events)


def forget_counts(path):
    """Make a volume one that was written before there were counts."""
    edit_record(path, counts=None)


def test_counts_are_those_of_the_tables(whole):
    path, results = whole
    assert counts_of(path) == expected(results)
    assert sum(open_volume(path).counts.events.values()) == len(open_volume(path).events)


def test_counts_begin_with_nothing(tmp_path):
    store.create(tmp_path / "a.zarr", HEADER, VERSION)
    assert counts_of(tmp_path / "a.zarr") == (0, {})


def test_counts_know_only_what_was_committed(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    results = fill(writer, 16)
    fill(writer, 21, commit=False)
    assert counts_of(tmp_path / "a.zarr") == expected(results)


@pytest.mark.parametrize("old", [False, True])
def test_counts_go_on_where_a_volume_is_resumed(tmp_path, whole, old):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION)
    fill(writer, 16)
    writer.release()
    if old:
        forget_counts(path)
    writer, state = store.resume(path, HEADER, VERSION)
    fill(writer, 29, state=state)
    writer.finish("complete")
    assert counts_of(path) == expected(whole[1])


def test_counts_of_an_older_volume_are_read_from_its_tables(tmp_path, whole):
    path = tmp_path / "a.zarr"
    writer = store.create(path, HEADER, VERSION, chunk_rows=16)
    fill(writer, 29)
    writer.finish("complete")
    forget_counts(path)
    assert counts_of(path) == expected(whole[1])
