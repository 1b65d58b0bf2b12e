"""
Pool a network's features
=========================

Per-pixel features become a row per segment. Here the features are a few filters; in your work they
are a network's, scaled to the frame.
"""

import cv2
import matplotlib.pyplot as plt
import numpy as np

import aaams_stream as aaams

*_, frame = aaams.stream("demo", duration=0.5)
grey = frame.rgb.astype(np.float32).mean(axis=2)
small = cv2.resize(grey, None, fx=0.25, fy=0.25)  # a map of a quarter of the size
features = np.stack(
    [grey, np.abs(cv2.Sobel(grey, cv2.CV_32F, 1, 0)), cv2.resize(small, (320, 240))]
)
features = features.transpose(1, 2, 0)  # (h, w, c)

pooled = aaams.pool(frame.ids, features)
print("features", features.shape, "to", pooled.shape)

# %%
# Row i belongs to row i of ``frame.segments``; back to pixels through the ids:

row_of = np.zeros(frame.ids.max() + 1, int)
row_of[frame.segments["id"]] = np.arange(len(frame.segments))
figure, panels = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
panels[0].imshow(features[..., 1], cmap="magma")
panels[1].imshow(pooled[row_of[frame.ids], 1], cmap="magma")
for panel, title in zip(panels, ("a feature", "pooled over segments")):
    panel.set_title(title, fontsize="medium")
    panel.axis("off")
