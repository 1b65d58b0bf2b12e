"""
Rerun: a recording of everything
================================

Frames, ids and tables on one timeline, for Rerun's viewer (extra ``rerun``).
"""

import tempfile
from pathlib import Path

import aaams_stream as aaams
from aaams_stream.export import export_volume

folder = Path(tempfile.mkdtemp())
aaams.segment_video("demo", folder / "demo.zarr", duration=0.5, with_video=True)
export_volume(aaams.open_volume(folder / "demo.zarr"), "rrd", folder / "demo.rrd")
print((folder / "demo.rrd").stat().st_size // 1000, "kB")

# %%
# The same on the command line, and a look at it::
#
#     aaams-stream export demo.zarr --to rrd -o demo.rrd
#     rerun demo.rrd
