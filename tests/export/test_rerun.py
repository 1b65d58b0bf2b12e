"""A recording, read back by Rerun's own reader."""

from __future__ import annotations

import numpy as np
import rerun.chunk

from aaams_stream.export import export_volume


def test_recording_reads_back_equal(volume, tmp_path):
    export_volume(volume, "rrd", tmp_path / "out.rrd")
    found, names = {}, set()
    for chunk in rerun.chunk.RrdReader(tmp_path / "out.rrd").stream():
        batch = chunk.to_record_batch()
        if chunk.entity_path == "/video/ids":
            frames, buffers = batch.column("frame"), batch.column("SegmentationImage:buffer")
            for frame, buffer in zip(frames.to_pylist(), buffers.to_pylist(), strict=True):
                found[frame] = np.frombuffer(bytes(buffer[0]), np.uint16).reshape(120, 160)
        if chunk.entity_path == "/video/boxes":
            for labels in batch.column("Boxes2D:labels").to_pylist():
                names.update(map(int, labels))
    assert sorted(found) == list(range(volume.frame_count))
    for t, ids in found.items():
        np.testing.assert_array_equal(ids, volume.ids[t])
    assert names == set(volume.tracks["id"].tolist())
