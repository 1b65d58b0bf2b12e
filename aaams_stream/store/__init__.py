"""The Zarr volume: writer, reader, resume. What zarr knows ends here."""

from aaams_stream.store.additions import add_levels, materialise
from aaams_stream.store.check import Damage, Report, check
from aaams_stream.store.folders import is_volume, size_on_disk
from aaams_stream.store.frames import Frames
from aaams_stream.store.layout import CHUNK_FRAMES, Header
from aaams_stream.store.mend import Mending, read_header
from aaams_stream.store.open import create, require_same, resume
from aaams_stream.store.view import LevelView, ObjectView
from aaams_stream.store.volume import Volume, open_volume
from aaams_stream.store.writer import VolumeWriter

__all__ = [
    "CHUNK_FRAMES",
    "Damage",
    "Frames",
    "Header",
    "LevelView",
    "Mending",
    "ObjectView",
    "Report",
    "Volume",
    "VolumeWriter",
    "add_levels",
    "check",
    "create",
    "is_volume",
    "materialise",
    "open_volume",
    "read_header",
    "require_same",
    "resume",
    "size_on_disk",
]
