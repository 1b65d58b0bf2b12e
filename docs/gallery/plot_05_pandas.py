"""
The track table in pandas
=========================

Which things move most, and how large are they over time?
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import aaams_stream as aaams
from aaams_stream.export import as_pandas

path = Path(tempfile.mkdtemp(), "demo.zarr")
aaams.segment_video("demo", path, duration=1.5)
volume = aaams.open_volume(path)

tracks = as_pandas(volume.tracks).set_index("id")
movers = tracks[tracks["frames"] >= 24].nlargest(4, "path")
print(movers[["first", "last", "frames", "volume", "path"]])

# %%
# ``table`` has all rows of all frames.

rows = as_pandas(volume.table("segments"))
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
for track_id in movers.index:
    seen = rows[rows["id"] == track_id]
    (line,) = left.plot(seen["centroid_x"], seen["centroid_y"])
    right.plot(seen["frame"], seen["area"], color=line.get_color(), label=f"id {track_id}")
left.set(title="where they went", xlim=(0, volume.width), ylim=(volume.height, 0))
right.set(title="how large they were", xlabel="frame", ylabel="pixels")
legend = right.legend(fontsize="small")
