"""The Zarr volume: writer, reader, resume. What zarr knows ends here."""

from aaams_stream.store.additions import add_levels, materialise
from aaams_stream.store.address import Address, Target, target_of
from aaams_stream.store.check import Damage, Report, check
from aaams_stream.store.folders import is_packed, is_volume, size_of, size_on_disk
from aaams_stream.store.frames import Frames
from aaams_stream.store.layout import CHUNK_FRAMES, ROWS, Header
from aaams_stream.store.lock import BeingWrittenError
from aaams_stream.store.mend import Mending, finish_as_it_is, read_header
from aaams_stream.store.open import create, require_same, resume
from aaams_stream.store.packing import Packed, pack
from aaams_stream.store.restore import restore_root
from aaams_stream.store.tables import require_complete
from aaams_stream.store.view import LevelView, ObjectView
from aaams_stream.store.volume import Volume, open_volume
from aaams_stream.store.writer import VolumeWriter

__all__ = [
    "CHUNK_FRAMES",
    "ROWS",
    "Address",
    "BeingWrittenError",
    "Damage",
    "Frames",
    "Header",
    "LevelView",
    "Mending",
    "ObjectView",
    "Packed",
    "Report",
    "Target",
    "Volume",
    "VolumeWriter",
    "add_levels",
    "check",
    "create",
    "finish_as_it_is",
    "is_packed",
    "is_volume",
    "materialise",
    "open_volume",
    "pack",
    "read_header",
    "require_complete",
    "require_same",
    "restore_root",
    "resume",
    "size_of",
    "size_on_disk",
    "target_of",
]
