"""
A supervoxel graph for a GNN
============================

Segments are nodes, what touches is joined by an edge: arrays that graph networks take as they are.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import aaams_stream as aaams
from aaams_stream.model import EDGE_FEATURES, NODE_FEATURES

*_, frame = aaams.stream("demo", duration=0.5)
graph = frame.graph()
for name, values in graph.arrays().items():
    print(f"{name:10} {values.dtype!s:8} {values.shape}")
print("of a node:", ", ".join(NODE_FEATURES))
print("of an edge:", ", ".join(EDGE_FEATURES))

# %%
# With PyTorch Geometric::
#
#     Data(**{name: torch.from_numpy(values) for name, values in graph.arrays().items()})

figure, panel = plt.subplots(figsize=(5, 3.8), layout="constrained")
panel.imshow(frame.rgb, alpha=0.5)
for ends in graph.edge_index.T:
    panel.plot(*graph.pos[ends].T, color="black", linewidth=0.6)
panel.scatter(*graph.pos.T, s=14, color="tab:red", zorder=3)
panel.axis("off")
panel.set_title(f"{len(graph.x)} nodes, {graph.edge_index.shape[1] // 2} contacts")

# %%
# A volume gives the graph of several frames: edges also join what has the same id, and what has
# split or merged, forwards in time.

path = Path(tempfile.mkdtemp(), "demo.zarr")
aaams.segment_video("demo", path, duration=0.5)
graph = aaams.open_volume(path).graph(0, 12)
for kind, column in zip(EDGE_FEATURES[:4], graph.edge_attr.T):
    print(f"{kind:6} {int(column.sum())} edges")
