"""The way from a volume dragged into napari to its layers, as napari's plugin engine takes it."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import numpy as np
import pytest
from support import ROOT

from aaams_stream import open_volume, segment_video
from aaams_stream.export.napari import napari_layers
from aaams_stream.run.napari_reader import get_reader

MANIFEST = ROOT / "aaams_stream" / "run" / "napari.yaml"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    target = tmp_path_factory.mktemp("volume") / "demo.zarr"
    segment_video("demo", target, duration=0.25, size=(160, 120), with_video=True)
    return target


def test_reader_gives_the_layers_of_a_volume(path):
    layers = get_reader(str(path))(str(path))
    expected = napari_layers(open_volume(path))
    assert [options["name"] for _, options, _ in layers] == [o["name"] for _, o, _ in expected]
    for (data, _, kind), (wanted, _, wanted_kind) in zip(layers, expected, strict=True):
        assert kind == wanted_kind
        np.testing.assert_array_equal(np.asarray(data), np.asarray(wanted))
    assert len(get_reader([str(path)] * 2)([str(path)] * 2)) == 2 * len(layers)


def test_reader_leaves_what_is_not_ours_to_others(path, tmp_path):
    assert get_reader(str(tmp_path)) is None
    assert get_reader(str(tmp_path / "nowhere.zarr")) is None
    assert get_reader([str(path), str(tmp_path)]) is None


# In a process of its own: npe2 warns while it is imported, and warnings are failures here.
NPE2 = """
import sys
import npe2
from npe2 import PluginManager, PluginManifest

manifest = PluginManifest.from_file(sys.argv[1])
manifest.validate_imports()
PluginManager.instance().register(manifest)
[reader] = PluginManager.instance().iter_compatible_readers([sys.argv[2]])
assert reader.command == "aaams-stream.read_volume"
layers = npe2.read([sys.argv[2]], stack=False)
print(*(kind for _, _, kind in layers))
"""


def test_napari_finds_the_reader_by_its_manifest(path):
    command = [sys.executable, "-c", NPE2, str(MANIFEST), str(path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["image", "labels", "labels", "labels", "labels", "tracks"]


def test_the_package_tells_napari_where_its_manifest_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    module, _, name = project["entry-points"]["napari.manifest"]["aaams-stream"].partition(":")
    assert ROOT.joinpath(*module.split("."), name) == MANIFEST
