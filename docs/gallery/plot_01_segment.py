"""
Segment a clip
==============

A film goes in, a volume comes out; then any frame of it can be looked at.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import aaams_stream as aaams
from aaams_stream.draw.views import draw_view

folder = Path(tempfile.mkdtemp())
summary = aaams.segment_video("demo", folder / "demo.zarr", duration=1, with_video=True)
print(f"{summary.frames} frames, {summary.segments:.0f} segments a frame")
print(f"{summary.identities} identities, {summary.size // 1000} kB on disk")

# %%
# Ids are read as they are asked for. The same colour is the same id, in every frame.

volume = aaams.open_volume(folder / "demo.zarr")
frames = list(aaams.replay(volume))  # with their pictures
figure, panels = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
for panel, t in zip(panels, (0, 11, 23)):
    panel.imshow(draw_view(frames[t].rgb, frames[t].ids, "ids"))
    panel.set_title(f"frame {t}, {volume.times[t]:.2f} s", fontsize="medium")
    panel.axis("off")
