"""Levels added to older volumes, and coarse labels for viewers; a crash leaves a valid volume."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import zarr
import zarr.storage._local as local
from support.hierarchies import drop_levels
from support.volumes import HEADER, VERSION, files, fill

from aaams_stream import open_volume, store
from aaams_stream.errors import ConfigError, SinkError
from aaams_stream.store import layout


@pytest.fixture(params=[False, True], ids=["labels alone", "with pictures"])
def path(tmp_path, request):
    target = tmp_path / "a.zarr"
    writer = store.create(
        target, dataclasses.replace(HEADER, with_video=request.param), VERSION, chunk_rows=16
    )
    fill(writer, 29)
    writer.finish("complete")
    return target


def test_levels_added_to_an_older_volume_are_those_it_would_have_had(path):
    whole = files(path)
    drop_levels(path)
    assert store.add_levels(path)
    assert files(path).keys() == whole.keys()
    record = json.loads(files(path)["zarr.json"])
    assert record == json.loads(whole["zarr.json"])
    assert {k: v for k, v in files(path).items() if k != "zarr.json"} == {
        k: v for k, v in whole.items() if k != "zarr.json"
    }


def test_levels_are_added_once(path):
    before = files(path)
    assert not store.add_levels(path)
    assert files(path) == before
    assert store.add_levels(path, overwrite=True)
    assert files(path) == before


def test_levels_need_a_complete_volume(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 8)
    before = files(tmp_path)
    with pytest.raises(SinkError, match=r"not complete \(8 frames so far\).*segment --resume"):
        store.add_levels(tmp_path / "a.zarr")
    assert files(tmp_path) == before
    with pytest.raises(SinkError, match="no such volume"):
        store.add_levels(tmp_path / "b.zarr")


class PowerCutError(Exception):
    """What ends a run of a test."""


@pytest.fixture
def cut_power(monkeypatch):
    """Return a function that makes the n-th write from then on fail; 0: none."""
    put, state = local._put, {"writes": 0, "moment": 0}

    def counted(place, value, exclusive=False):
        state["writes"] += 1
        if state["writes"] == state["moment"]:
            raise PowerCutError
        return put(place, value, exclusive)

    monkeypatch.setattr(local, "_put", counted)
    return lambda moment: state.update(writes=0, moment=moment)


def until_it_is_done(act, cut_power, check):
    """Call `act` with the power cut at the first write, the second and so on, until it gets by."""
    for moment in range(1, 200):
        cut_power(moment)
        try:
            act()
        except PowerCutError:
            check()
        else:
            return moment
        finally:
            cut_power(0)
    raise AssertionError("it never ends")


@pytest.mark.parametrize("overwrite", [False, True])
def test_levels_that_were_cut_off_leave_a_volume_to_which_they_can_be_added(
    path, cut_power, overwrite
):
    whole = files(path)
    expected = open_volume(path).ids[:]
    if not overwrite:
        drop_levels(path)

    def check():
        volume = open_volume(path)
        np.testing.assert_array_equal(volume.ids[:], expected)
        if volume.has_levels:
            assert len(volume.hierarchy.merges) == volume.merge_count

    moments = until_it_is_done(
        lambda: store.add_levels(path, overwrite=overwrite), cut_power, check
    )
    assert moments > 5
    store.add_levels(path, overwrite=True)
    assert files(path) == whole


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")  # Zarr 3.1 warns of the frames' codec
def test_materialised_labels_are_ome_ngff(path):
    v05 = pytest.importorskip("ome_zarr_models.v05")
    assert store.materialise(path, 5) == "labels/coarse_5"
    root = zarr.open_group(str(path), mode="r")
    labels = v05.labels.Labels.from_zarr(root["labels"])
    assert labels.attributes.ome.labels == ["ids", "coarse_5"]
    label = v05.image_label.ImageLabel.from_zarr(root["labels/coarse_5"])
    scales = label.attributes.ome.multiscales[0]
    assert [axis.name for axis in scales.axes] == list("tyx")
    assert scales.datasets[0].coordinateTransformations[0].scale == [0.04, 1.0, 1.0]
    array, ids = root["labels/coarse_5/0"], root["labels/ids/0"]
    view = open_volume(path).at(segments=5)
    np.testing.assert_array_equal(array[:], view.ids[:])
    assert root["labels/coarse_5"].attrs["aaams_stream"] == {"level": view.level}
    for name in ("chunks", "dtype", "fill_value"):
        assert getattr(array, name) == getattr(ids, name)
    assert array.metadata.dimension_names == ("t", "y", "x")


def test_materialised_labels_are_written_anew_and_listed_once(path):
    told = []
    store.materialise(path, 5, lambda *at: told.append(at))
    assert told[-1] == (29, 29)
    store.materialise(path, 3)
    before = files(path)
    store.materialise(path, 3)
    assert files(path) == before
    root = zarr.open_group(str(path), mode="r")
    assert layout.labels_in(root) == ["ids", "coarse_5", "coarse_3"]


def test_materialised_labels_are_listed_only_when_they_are_whole(path, cut_power):
    expected = open_volume(path).at(segments=3).ids[:]

    def check():
        root = zarr.open_group(str(path), mode="r")
        assert layout.labels_in(root) == ["ids"]
        open_volume(path).at(segments=3)

    until_it_is_done(lambda: store.materialise(path, 3), cut_power, check)
    root = zarr.open_group(str(path), mode="r")
    assert layout.labels_in(root) == ["ids", "coarse_3"]
    np.testing.assert_array_equal(root["labels/coarse_3/0"][:], expected)


def test_materialised_labels_go_with_the_levels_they_were_made_from(path):
    before = files(path)
    store.materialise(path, 3)
    store.add_levels(path, overwrite=True)
    assert files(path) == before


def test_materialise_needs_levels_and_a_count(path):
    with pytest.raises(ConfigError, match="must be >= 1, got 0"):
        store.materialise(path, 0)
    drop_levels(path)
    with pytest.raises(SinkError, match="aaams-stream levels"):
        store.materialise(path, 3)


def test_additions_wait_for_nobody(path):
    writer, _ = store.resume(path, open_volume(path).header, VERSION)
    for add in (store.add_levels, lambda place: store.materialise(place, 3)):
        with pytest.raises(SinkError, match="is being written by another process"):
            add(path)
    writer.release()
