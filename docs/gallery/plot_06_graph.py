"""
A supervoxel graph for a GNN
============================

Segments are nodes, touching segments are joined by edges: the arrays that graph networks take.
"""

import matplotlib.pyplot as plt
import numpy as np

import aaams_stream as aaams

*_, frame = aaams.stream("demo", duration=0.5)
rows, pairs = frame.segments, frame.adjacency

x = np.column_stack([rows["colour"], rows["colour_spread"], np.log(rows["area"]), rows["motion"]])
pos = rows["centroid"]
ends = [np.searchsorted(rows["id"], pairs[end]) for end in ("first", "second")]
edge_index = np.concatenate([ends, ends[::-1]], axis=1)  # both ways
edge_attr = np.tile(np.column_stack([pairs["length"], pairs["contrast"]]), (2, 1))
print("x", x.shape, "edge_index", edge_index.shape, "edge_attr", edge_attr.shape)

# %%
# With PyTorch Geometric: ``Data(x=torch.from_numpy(x).float(), edge_index=torch.from_numpy(
# edge_index), edge_attr=torch.from_numpy(edge_attr).float(), pos=torch.from_numpy(pos))``.

figure, panel = plt.subplots(figsize=(5, 3.8), layout="constrained")
panel.imshow(frame.rgb, alpha=0.5)
for first, second in edge_index.T[: len(pairs)]:
    panel.plot(*pos[[first, second]].T, color="black", linewidth=0.6)
panel.scatter(*pos.T, s=14, color="tab:red", zorder=3)
panel.axis("off")
panel.set_title(f"{len(rows)} nodes, {len(pairs)} contacts", fontsize="medium")
