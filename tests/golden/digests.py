"""Digests of what the package makes of known input: any change of a single bit shows.

    python tests/golden/digests.py                      the drawn scenes, compared with what is kept
    python tests/golden/digests.py --keep               ... kept for this kind of machine
    python tests/golden/digests.py --clips A B --images C D   and of files, printed as JSON

Some loops are compiled with fastmath, so the last bits belong to a kind of processor and to the
versions of the compiler and of OpenCV: digests are kept per kind, in `kept/`, and are compared only
with those of their own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Iterable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import aaams_stream as aaams
from aaams_stream import Params

KEPT = Path(__file__).parent / "kept"
SETTINGS = ("default", "realtime", "detail", "coarse")
SCALES = (1.0, 0.75, 0.5)


def machine() -> dict[str, str]:
    """Return all that the last bits may depend on beyond our own code."""
    import cv2
    import llvmlite.binding
    import numba

    features = llvmlite.binding.get_host_cpu_features().flatten()
    return {
        "cpu": llvmlite.binding.get_host_cpu_name(),
        "features": hashlib.sha256(features.encode()).hexdigest()[:12],
        "numba": numba.__version__,
        "numpy": np.__version__,
        "opencv": cv2.__version__,
    }


def kept_file() -> Path:
    """Return where the digests of this kind of machine are kept."""
    kind = machine()
    name = hashlib.sha256(json.dumps(kind, sort_keys=True).encode()).hexdigest()[:12]
    return KEPT / f"{kind['cpu']}-{name}.json"


def digest(*arrays: Any) -> str:
    """Return the digest of arrays, their types and shapes included."""
    total = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        total.update(f"{array.dtype.descr} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()[:16]


def of_stream(frames: Iterable[Any]) -> dict[str, str]:
    """Return one digest of every kind of result over all frames."""
    parts: dict[str, Any] = {
        name: hashlib.sha256() for name in ("ids", "segments", "adjacency", "events")
    }
    for frame in frames:
        for name, total in parts.items():
            total.update(digest(getattr(frame, name)).encode())
    return {name: total.hexdigest()[:16] for name, total in parts.items()}


def of_image(rgb: Any, params: Params) -> dict[str, str]:
    """Return the digests of a single image."""
    result = aaams.segment_image(rgb, params)
    tree = result.tree
    return {
        "labels": digest(result.labels),
        "modes": digest(result.modes, result.bandwidths, result.densities),
        "tree": digest(tree.survivor, tree.absorbed, tree.level),
        "history": digest(result.history.clusters, result.history.largest_shift),
    }


def of_points(points: Any, **options: Any) -> dict[str, str]:
    """Return the digests of a fit."""
    model = aaams.AAAMS(**options).fit(points)
    return {
        "labels": digest(model.labels_),
        "modes": digest(model.modes_, model.bandwidths_),
    }


def of_clip(source: str, frames: int) -> dict[str, dict[str, str]]:
    """Return the digests of the first frames of a clip at every scale."""
    found = {}
    for scale in SCALES:
        params = Params().updated({"stream": {"scale": scale}})
        with closing(aaams.stream(source, params)) as stream:
            found[f"scale {scale}"] = of_stream(islice(stream, frames))
    return found


def of_drawn_clips() -> dict[str, Any]:
    """Return the digests of the clip the package draws, and of one in which the scene changes."""
    found: dict[str, Any] = of_clip("demo", 36)
    found["realtime"] = of_stream(aaams.stream("demo", "realtime", duration=1))
    segmenter = aaams.Segmenter(segments=60)
    pictures = [frame.rgb for frame in aaams.stream("demo", segments=10, duration=0.4)]
    turned = [np.ascontiguousarray(255 - rgb[::-1, ::-1]) for rgb in pictures]
    found["cut"] = of_stream(segmenter.step(rgb) for rgb in [*pictures, *turned])
    return found


def of_drawn_images() -> dict[str, Any]:
    """Return the digests of a drawn picture with each of the settings that are shipped."""
    rgb = _textured(next(iter(aaams.stream("demo", segments=10, start=2))).rgb)
    found: dict[str, Any] = {name: of_image(rgb, Params.load(name)) for name in SETTINGS}
    plain = Params().updated({"post": {"criterion": "bhattacharyya"}})
    found["bhattacharyya"] = of_image(rgb, plain)
    found["16 bit"] = of_image(rgb.astype(np.uint16) * 257, Params())
    return found


def _textured(rgb: Any) -> Any:
    """Return the picture with clouds over it, so that no two settings cut it alike."""
    clouds = np.random.default_rng(3).normal(size=rgb.shape)
    for reach in (1, 2, 4):
        for axis in (0, 1):
            clouds = clouds + np.roll(clouds, reach, axis) + np.roll(clouds, -reach, axis)
    clouds *= 22 / clouds.std()
    return np.clip(np.rint(rgb + clouds), 0, 255).astype(np.uint8)


def of_drawn_points() -> dict[str, Any]:
    """Return the digests of points drawn around a few centres, in one domain and in two."""
    rng = np.random.default_rng(7)
    centres = rng.normal(0, 12, (6, 3))
    points = np.concatenate([c + rng.normal(0, 1, (80, 3)) * (1, 2, 0.5) for c in centres])
    return {
        "one domain": of_points(points, bandwidth=1.0, epsilon=1.5),
        "two domains": of_points(points, bandwidth=(1.5, 1.0), epsilon=(2.0, 1.5), domains=(2, 1)),
    }


def of_drawn() -> dict[str, Any]:
    """Return every digest that needs nothing from outside."""
    return {
        "clips": of_drawn_clips(),
        "images": of_drawn_images(),
        "points": of_drawn_points(),
    }


def differences(kept: Any, found: Any, name: str = "") -> list[str]:
    """Return the names of the digests that are not the same."""
    if not isinstance(kept, dict) or not isinstance(found, dict):
        return [] if kept == found else [name]
    return [
        line
        for key in {**kept, **found}
        for line in differences(kept.get(key), found.get(key), f"{name}/{key}".strip("/"))
    ]


def main() -> int:
    """Print, compare or keep digests."""
    parser = argparse.ArgumentParser(description="Digests of results, for refactoring.")
    parser.add_argument("--keep", action="store_true", help="keep those of the drawn scenes")
    parser.add_argument("--clips", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--images", nargs="+", default=[], metavar="FILE")
    parser.add_argument("--frames", type=int, default=24, help="frames of each clip")
    args = parser.parse_args()
    if args.clips or args.images:
        found: dict[str, Any] = {}
        for clip in args.clips:
            found[Path(clip).name] = of_clip(clip, args.frames)
        for image in args.images:
            rgb = next(iter(aaams.stream(image, segments=10))).rgb
            found[Path(image).name] = {n: of_image(rgb, Params.load(n)) for n in SETTINGS}
        print(json.dumps(found, indent=1))
        return 0
    found = of_drawn()
    if args.keep:
        KEPT.mkdir(exist_ok=True)
        record = {"machine": machine(), "digests": found}
        kept_file().write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"kept as {kept_file().name}")
        return 0
    if not kept_file().exists():
        print(f"other processor: nothing is kept for {machine()}")
        return 0
    kept = json.loads(kept_file().read_text(encoding="utf-8"))["digests"]
    changed = differences(kept, found)
    print("\n".join(f"differs: {name}" for name in changed) or "all equal")
    return bool(changed)


if __name__ == "__main__":
    sys.exit(main())
