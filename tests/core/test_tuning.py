"""The constants of the method: all are used, and another one gives another result."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import draw_scene

import aaams_stream.core
from aaams_stream import Params, Segmenter, segment_image
from aaams_stream.core.tuning import DEFAULT, Tuning
from aaams_stream.model import EventKind
from aaams_stream.source.demo import demo_frame

FIELDS = {entry.name for entry in dataclasses.fields(Tuning)}
PARAMS = Params().updated({"stream": {"segments": 60, "scale": 0.6}})

OTHERS = {
    "min_side": 96,
    "min_length_share": 0.5,
    "upsample_alike2": 60.0,
    "flow_stride": 5,
    "flow_steps": 16,
    "variance_floor": 0.5,
    "adaptive_members": 18,
    "warm_iterations": 3,
    "warm_thin": 1,
    "outlier": 1.0,
    "inlier": 0.0,
    "watch": 1,
    "missing": 0.8,
    "recover_min_area": 4,
    "refresh_tile": 24,
    "refresh_large": 3.0,
    "vote_stay": 0.0,
    "vote_join": 4.0,
    "vote_rounds": 0,
    "unit_share": 0.013,
    "unit_edge": 2.5,
    "faint": 0.0,
    "least_birth": 60,
    "usual_segments": 20,
    "bulk": 1.0,
    "new_motion": 0.0,
    "colour_memory": 0.4,
    "motion_in_merging": False,
    "recover_lost": False,
    "split_motions": False,
}


@pytest.fixture(scope="module")
def frames():
    return [demo_frame(5 * index).rgb[::2, ::2].copy() for index in range(6)]


def digest(frames, **options):
    """Return a digest of what comes of a clip."""
    segmenter = Segmenter(PARAMS, **options)
    found = hashlib.sha256()
    for rgb in frames:
        found.update(stepped(segmenter, rgb))
    return found.hexdigest()


def stepped(segmenter, rgb):
    """Return the ids and segments of a frame, and how they are thought to move on, as bytes."""
    result = segmenter.step(rgb)
    motion = segmenter.state.tracks.motion
    return result.ids.tobytes() + result.segments.tobytes() + motion.tobytes()


@pytest.fixture(scope="module")
def usual(frames):
    return digest(frames)


def fields_read(source):
    """Return which attributes of a tuning a source reads."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = getattr(node.value, "attr", getattr(node.value, "id", None))
            if owner in ("tuning", "DEFAULT"):
                found.add(node.attr)
    return found


def test_tuning_has_no_field_that_the_core_does_not_read():
    folder = Path(aaams_stream.core.__path__[0])
    others = ("tuning.py", "levels.py")  # where constants stand, some of them others
    sources = [path for path in folder.glob("*.py") if path.name not in others]
    read = set().union(*(fields_read(path.read_text(encoding="utf-8")) for path in sources))
    assert read == FIELDS


def test_tunings_are_equal_by_value():
    assert Tuning() == DEFAULT
    assert hash(Tuning()) == hash(DEFAULT)
    other = dataclasses.replace(DEFAULT, outlier=3.0)
    assert other != DEFAULT
    assert dataclasses.replace(other, outlier=DEFAULT.outlier) == DEFAULT


def test_tuning_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        DEFAULT.outlier = 3.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("flow_stride", 9, r"lie in 1\.\.8 pixels"),
        ("flow_stride", 0, r"lie in 1\.\.8 pixels"),
        ("warm_thin", 0, "be at least 1 row"),
        ("warm_thin", -1, "be at least 1 row"),
    ],
)
def test_tuning_refuses_what_would_end_the_process_or_leave_gaps(field, value, expected):
    with pytest.raises(ValueError, match=f"{field} must {expected}, got {value}"):
        dataclasses.replace(DEFAULT, **{field: value})


def test_segmenter_with_an_equal_tuning_gives_the_same(frames, usual):
    assert digest(frames, tuning=Tuning()) == usual


@pytest.mark.parametrize("field", OTHERS)
def test_segmenter_heeds_its_tuning(field, frames, usual):
    other = dataclasses.replace(DEFAULT, **{field: OTHERS[field]})
    assert digest(frames, tuning=other) != usual


def test_segmenters_with_different_tunings_run_beside_each_other(frames, usual):
    """No tuning is kept anywhere but in its segmenter."""
    other = dataclasses.replace(DEFAULT, outlier=1.0, upsample_alike2=60.0, min_length_share=0.5)
    alone = digest(frames, tuning=other)
    segmenters = [Segmenter(PARAMS), Segmenter(PARAMS, tuning=other)]
    found = [hashlib.sha256(), hashlib.sha256()]
    for rgb in frames:
        for segmenter, sums in zip(segmenters, found, strict=True):
            sums.update(stepped(segmenter, rgb))
    assert [sums.hexdigest() for sums in found] == [usual, alone]


def test_scene_change_comes_sooner_with_a_larger_share_and_less_strangeness(frames):
    jumpy = dataclasses.replace(DEFAULT, scene_change_share=1.0, strange=0.0)
    for tuning, expected in ((DEFAULT, False), (jumpy, True)):
        segmenter = Segmenter(PARAMS, tuning=tuning)
        kinds = np.concatenate([segmenter.step(rgb).events["kind"] for rgb in frames])
        assert (EventKind.CUT in kinds) == expected


def test_noise_level_keeps_the_number_of_segments_down(frames):
    coarse = dataclasses.replace(DEFAULT, noise_level=0.5)
    few, many = (
        len(Segmenter(PARAMS, tuning=tuning).step(frames[0]).segments)
        for tuning in (coarse, DEFAULT)
    )
    assert few < many


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_variance_floor_is_the_least_eigenvalue_of_bandwidths(share):
    tuning = dataclasses.replace(DEFAULT, variance_floor=share)
    result = segment_image(draw_scene(48, 64), tuning=tuning)
    params = Params()
    colour = np.linalg.eigvalsh(result.bandwidths[:, :3, :3].astype(np.float64)).min()
    space = np.linalg.eigvalsh(result.bandwidths[:, 3:, 3:].astype(np.float64)).min()
    assert 0.99 < colour / (share * params.colour.sigma2) < 1.5
    assert space / (share * params.space.sigma2) > 0.99
