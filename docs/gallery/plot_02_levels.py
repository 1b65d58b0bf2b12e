"""
Levels: from parts to things
============================

One volume, every granularity: a level is a lookup from ids to groups, so nothing is segmented
again.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import aaams_stream as aaams
from aaams_stream.draw.views import draw_view

path = Path(tempfile.mkdtemp(), "demo.zarr")
aaams.segment_video("demo", path, start=2, duration=1, with_video=True)
volume = aaams.open_volume(path)

t = 20
frame = list(aaams.replay(volume))[t]
figure, panels = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
for panel, count in zip(panels, (None, 25, 8)):
    view = volume if count is None else volume.at(segments=count)
    panel.imshow(draw_view(frame.rgb, view.ids[t], "objects", fine=frame.ids))
    panel.set_title(f"{len(view.segments(t))} in this frame", fontsize="medium")
    panel.axis("off")

# %%
# A view is asked what a volume is asked. Identities are fewer and live longer:

for view in (volume, volume.at(segments=25), volume.at(segments=8)):
    lives = view.tracks["frames"]
    print(f"{len(lives):4d} identities, in {lives.mean():.1f} of {view.frame_count} frames each")
