"""The Zarr volume: writer, reader, resume. What zarr knows ends here."""

from aaams_stream.store.frames import Frames
from aaams_stream.store.layout import CHUNK_FRAMES, Header
from aaams_stream.store.open import create, require_same, resume
from aaams_stream.store.volume import Volume, is_volume, open_volume, size_on_disk
from aaams_stream.store.writer import VolumeWriter

__all__ = [
    "CHUNK_FRAMES",
    "Frames",
    "Header",
    "Volume",
    "VolumeWriter",
    "create",
    "is_volume",
    "open_volume",
    "require_same",
    "resume",
    "size_on_disk",
]
