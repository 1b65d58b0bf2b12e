"""Volumes written without a source: a header, and frames from the tiny segmenter."""

from __future__ import annotations

from fractions import Fraction

from aaams_stream import store
from aaams_stream.params import Params
from support import standin
from support.clips import moving_frames

VERSION = "1"
HEADER = store.Header(
    width=64,
    height=48,
    rate=Fraction(25),
    time_base=Fraction(1, 25),
    spec="/somewhere/clip.mkv",
    fingerprint="sha256:0",
    selection={"start": None, "duration": None, "every": 1, "size": None},
    configuration=Params().to_dict(),
)


def fill(writer, count, *, state=None, commit=True):
    """Append frames up to number `count` from a segmenter; return what was appended."""
    segmenter = standin.Segmenter(
        state=standin.SegmenterState.from_arrays(state) if state is not None else None
    )
    results = []
    for index, rgb in enumerate(moving_frames(count)):
        if index < writer.frames:
            continue
        result = segmenter.step(rgb, index / 25)
        writer.append(result, index / 25, rgb)
        results.append(result)
        if commit and writer.frames % store.CHUNK_FRAMES == 0:
            writer.commit(segmenter.state.to_arrays())
    return results


def files(path):
    """Return the content of every file below a folder."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def spoil_early_rows(path):
    """Overwrite all chunks of the tables but the last of each column; return how many."""
    spoilt = 0
    for column in path.glob("*/*/c"):
        if column.parent.parent.name == "labels":
            continue
        chunks = sorted(column.iterdir(), key=lambda chunk: int(chunk.name))
        for chunk in chunks[:-1]:
            for file in [chunk] if chunk.is_file() else chunk.iterdir():
                file.write_bytes(b"no chunk of ours")
                spoilt += 1
    return spoilt
