"""
Objects, with nothing told
==========================

Which groups look like things? Those that move against the scene, last, and do not just lie along
the edge of the picture.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import aaams_stream as aaams
from aaams_stream.export import Selection, export_volume

path = Path(tempfile.mkdtemp(), "demo.zarr")
aaams.segment_video("demo", path, start=1, duration=1, with_video=True)
volume = aaams.open_volume(path)
things = volume.objects(5)
for thing in things:
    print(f"id {thing['id']} at level {thing['level']:.2f}, in {thing['frames']} frames")

# %%
# ``only`` is the volume with nothing but these: everything else has id 0.

only = volume.only(things)
frames = list(aaams.replay(volume))
figure, panels = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
for panel, t in zip(panels, (0, 11, 23)):
    rgb = frames[t].rgb.astype(float)
    rgb[only.ids[t] == 0] = 255 - 0.25 * (255 - rgb[only.ids[t] == 0])
    panel.imshow(rgb.astype(np.uint8))
    panel.set_title(f"frame {t}", fontsize="medium")
    panel.axis("off")

# %%
# As COCO, with run-length masks and tracks:

export_volume(only, "coco", path.with_suffix(".json"), Selection(min_area=20))
print(path.with_suffix(".json").stat().st_size // 1000, "kB")
