"""Writing a volume: what lies on disk, and when it counts."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from support import ROOT, TESTS
from support.volumes import HEADER, VERSION, fill

from aaams_stream import store
from aaams_stream.store import open_volume

FULL = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from support.volumes import HEADER, VERSION, fill
from aaams_stream import SinkError, store
writer = store.create(Path(sys.argv[1]), HEADER, VERSION)
fill(writer, 16)
resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))  # no file can grow any more
try:
    fill(writer, 32)
except SinkError as error:
    print(error)
"""


def test_commits_come_where_chunks_end(tmp_path):
    writer = store.create(tmp_path / "a.zarr", HEADER, VERSION)
    fill(writer, 3)
    with pytest.raises(ValueError, match="whole chunks"):
        writer.commit({})


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs file size limits")
def test_writer_leaves_what_was_committed_when_the_disk_fills_up(tmp_path):
    path = tmp_path / "a.zarr"
    run = subprocess.run(
        [sys.executable, "-c", FULL, str(path), str(TESTS)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert "a.zarr: cannot be written" in run.stdout, run.stderr
    assert open_volume(path).frame_count == 16
    assert open_volume(path).ids[15].all()
    writer, state = store.resume(path, HEADER, VERSION)
    fill(writer, 32, state=state)
    writer.finish("complete")
    assert open_volume(path).frame_count == 32
