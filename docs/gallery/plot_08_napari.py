"""
napari: ids, levels and tracks
==============================

The layers of a volume. Making them needs nothing of napari; showing them takes its viewer.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import aaams_stream as aaams
from aaams_stream.export.napari import napari_layers

path = Path(tempfile.mkdtemp(), "demo.zarr")
aaams.segment_video("demo", path, duration=1, with_video=True)
layers = napari_layers(aaams.open_volume(path), min_life=12)
for _, options, kind in layers:
    print(f"{kind:7} {options['name']}")

# %%
# In napari::
#
#     viewer = napari.Viewer()
#     for data, options, kind in layers:
#         getattr(viewer, f"add_{kind}")(data, **options)
#
# The tracks are rows of id, frame, y, x. Drawn here without it:

points = layers[-1][0]
figure = plt.figure(figsize=(5, 4))
space = figure.add_subplot(projection="3d")
for track_id in set(points[:, 0]):
    _, t, y, x = points[points[:, 0] == track_id].T
    space.plot(x, t, -y, linewidth=1)
space.set(xlabel="x", ylabel="frame", zlabel="y")
figure.tight_layout()
