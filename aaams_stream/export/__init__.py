"""Volumes for others: tables and formats that their own libraries read."""

from aaams_stream.export.detections import as_detections
from aaams_stream.export.formats import FORMATS, export_volume
from aaams_stream.export.selection import Selection
from aaams_stream.export.tables import as_arrow, as_pandas, as_polars

__all__ = [
    "FORMATS",
    "Selection",
    "as_arrow",
    "as_detections",
    "as_pandas",
    "as_polars",
    "export_volume",
]
