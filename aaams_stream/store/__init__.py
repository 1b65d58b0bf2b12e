"""The Zarr volume: writer, reader, resume. What zarr knows ends here."""

from aaams_stream.store.additions import add_levels, materialise
from aaams_stream.store.frames import Frames
from aaams_stream.store.layout import CHUNK_FRAMES, Header
from aaams_stream.store.open import create, require_same, resume
from aaams_stream.store.view import LevelView, ObjectView
from aaams_stream.store.volume import Volume, is_volume, open_volume, size_on_disk
from aaams_stream.store.writer import VolumeWriter

__all__ = [
    "CHUNK_FRAMES",
    "Frames",
    "Header",
    "LevelView",
    "ObjectView",
    "Volume",
    "VolumeWriter",
    "add_levels",
    "create",
    "is_volume",
    "materialise",
    "open_volume",
    "require_same",
    "resume",
    "size_on_disk",
]
