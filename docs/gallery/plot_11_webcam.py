"""
A webcam loop
=============

Frames as they come, with code of your own in the loop. Put ``camera:0`` in place of ``demo``.
``LiveLoop`` keeps to the camera's clock and drops what comes too late; ``stream`` would give every
frame.
"""

import matplotlib.pyplot as plt
import numpy as np

import aaams_stream as aaams
from aaams_stream.draw.views import draw_view
from aaams_stream.live import LiveLoop
from aaams_stream.source import open_source

with LiveLoop(open_source("demo"), aaams.Params.load("realtime"), fps=0) as loop:
    for shown in loop.frames():
        frame = shown.segmentation
        speed = np.hypot(*frame.segments["motion"].T)
        fastest = frame.segments[speed.argmax()]
        if frame.index >= 12:
            break

print(f"{len(frame.segments)} segments; id {fastest['id']} moves {speed.max():.1f} pixels a frame")

# %%
# An arrow for each segment that moves:

figure, panel = plt.subplots(figsize=(5, 3.8), layout="constrained")
panel.imshow(draw_view(shown.frame.rgb, frame.ids, "motion", segments=frame.segments))
panel.axis("off")
