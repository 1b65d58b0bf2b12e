"""
Compare settings
================

The same second of film with a few settings, side by side: the quickest way to choose.
"""

import matplotlib.pyplot as plt
import numpy as np

import aaams_stream as aaams
from aaams_stream.draw.views import draw_view

tried = {
    "default": aaams.Params(),
    "realtime": aaams.Params.load("realtime"),
    "30 segments": aaams.Params().overridden(["stream.segments=30"]),
    "tolerance2 = 40": aaams.Params().overridden(["stream.tolerance2=40"]),
}
figure, panels = plt.subplots(1, 4, figsize=(12, 2.7), layout="constrained")
for panel, (name, params) in zip(panels, tried.items()):
    frames = list(aaams.stream("demo", params, start=2, duration=0.5))
    first, last = frames[0], frames[-1]
    kept = np.isin(first.segments["id"], last.segments["id"]).mean()
    panel.imshow(draw_view(last.rgb, last.ids, "ids"))
    panel.set_title(f"{name}\n{len(last.segments)} segments, {kept:.0%} of ids kept", fontsize=9)
    panel.axis("off")
