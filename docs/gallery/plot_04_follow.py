"""
Follow an object
================

One click in the first frame; its mask in every frame after it, live.
"""

import matplotlib.pyplot as plt
import numpy as np

import aaams_stream as aaams

shown, areas = [], []
known = None
for frame in aaams.stream("demo", duration=1.5):
    if known is None:
        known = aaams.begin_following(frame, aaams.mask_at(frame, [(88, 150)]))  # the balloon
    else:
        known = aaams.keep_following(known, frame)
    areas.append(int(known.mask.sum()))
    if frame.index % 16 == 0:
        tinted = frame.rgb.copy()
        tinted[known.mask] = (0.4 * tinted[known.mask] + 0.6 * np.array([0, 255, 255])).astype(
            np.uint8
        )
        shown.append((frame.index, tinted))

figure, panels = plt.subplots(1, 3, figsize=(9, 2.6), layout="constrained")
for panel, (t, tinted) in zip(panels, shown):
    panel.imshow(tinted)
    panel.set_title(f"frame {t}: {areas[t]} pixels", fontsize="medium")
    panel.axis("off")

# %%
# To use a mask of your own instead of a click, ``aaams.follow(frames, mask)`` yields the masks.

print("least and largest area:", min(areas), max(areas))
