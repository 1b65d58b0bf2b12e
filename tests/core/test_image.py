"""Images: exact labels on drawn scenes, invariances, convergence, bad input."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
import skimage.measure
from support import TESTS, synthetic
from support.synthetic import draw_scene

from aaams_stream import Params, metrics, segment_image
from aaams_stream.core import features
from aaams_stream.errors import ConfigError

EXACT = {
    "one colour": synthetic.flat(),
    "four rectangles": synthetic.quarters(),
    "stripes": synthetic.stripes(),
    "stripes narrower than the window": synthetic.stripes(12),
    "a checkerboard": synthetic.checkerboard(),
    "a checkerboard finer than the window": synthetic.checkerboard(4, 8, 9),
    "a ramp": synthetic.ramp(),
    "lines of one pixel": synthetic.thin_lines(thickness=1),
    "lines of two pixels": synthetic.thin_lines(thickness=2),
    "discs": synthetic.discs(sigma=0),
    "noisy discs": synthetic.discs(sigma=4),
    "very noisy discs": synthetic.discs(sigma=8),
    "noisy rectangles": synthetic.noisy(synthetic.quarters(), 5),
    "a shaded landscape": synthetic.landscape(),
}


def raster_order(labels):
    """Rename labels by first appearance, as results are numbered."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].reshape(labels.shape)


def run_python(code: str, **environment: str) -> str:
    """Return what a new interpreter prints; the tests' own modules are at hand."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), **environment}
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("name", EXACT)
def test_segment_image_gives_drawn_scenes_exactly(name):
    scene = EXACT[name]
    labels = segment_image(scene.rgb).labels
    assert labels.dtype == np.uint32
    np.testing.assert_array_equal(labels, raster_order(scene.labels))


def test_segment_image_tells_two_shaded_surfaces_apart():
    scene = synthetic.two_ramps()
    labels = segment_image(scene.rgb, segments=2).labels
    np.testing.assert_array_equal(labels, raster_order(scene.labels))


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (2, 1), (1, 40), (40, 1), (3, 3)])
@pytest.mark.parametrize("channels", [0, 3, 4])
def test_segment_image_takes_the_smallest_images(shape, channels):
    image = np.full((*shape, channels) if channels else shape, 77, np.uint8)
    result = segment_image(image)
    np.testing.assert_array_equal(result.labels, 0)
    assert result.modes.shape == (1, 5)
    assert np.isfinite(result.bandwidths).all()


@pytest.mark.parametrize("lying", [False, True])
def test_segment_image_cuts_a_line_of_pixels_where_the_colour_changes(lying):
    line = np.repeat(synthetic.PALETTE[[1, 3, 7]], 20, axis=0)[None]
    labels = segment_image(line if lying else line.transpose(1, 0, 2)).labels
    np.testing.assert_array_equal(labels.ravel(), np.repeat([0, 1, 2], 20))


@pytest.mark.parametrize("width", [14, 15, 16, 17, 18, 31, 32, 33, 47, 48, 49])
def test_segment_image_is_exact_for_any_width_around_whole_lanes(width):
    scene = synthetic.quarters(20, width)
    np.testing.assert_array_equal(segment_image(scene.rgb).labels, scene.labels)


def test_segment_image_sees_grey_alpha_and_sixteen_bits_as_the_colours_they_show():
    scene = synthetic.discs(48, 72)
    rgb = scene.rgb
    expected = segment_image(rgb).labels
    opaque = np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)])
    np.testing.assert_array_equal(segment_image(opaque).labels, expected)
    np.testing.assert_array_equal(segment_image(rgb.astype(np.uint16) * 257).labels, expected)
    grey = rgb[:, :, 1]
    spread = segment_image(np.repeat(grey[:, :, None], 3, axis=2)).labels
    np.testing.assert_array_equal(segment_image(grey).labels, spread)
    np.testing.assert_array_equal(segment_image(grey[:, :, None]).labels, spread)


def test_segment_image_makes_transparent_pixels_a_segment_whatever_their_hidden_colour():
    image = np.zeros((24, 30, 4), np.uint8)
    image[:, :, :3] = np.random.default_rng(0).integers(0, 256, (24, 30, 3))
    image[:, 15:] = (200, 30, 30, 255)
    labels = segment_image(image).labels
    np.testing.assert_array_equal(labels, np.broadcast_to(np.arange(30) >= 15, (24, 30)))


def test_segment_image_takes_arrays_of_any_layout():
    rgb = synthetic.discs(48, 72).rgb
    expected = segment_image(rgb).labels
    np.testing.assert_array_equal(segment_image(np.asfortranarray(rgb)).labels, expected)
    wide = np.repeat(rgb, 2, axis=1)
    np.testing.assert_array_equal(segment_image(wide[:, ::2]).labels, expected)
    readonly = rgb.copy()
    readonly.setflags(write=False)
    np.testing.assert_array_equal(segment_image(readonly).labels, expected)


def test_segment_image_gives_the_same_result_again():
    rgb = draw_scene(48, 64)
    one, two = segment_image(rgb), segment_image(rgb)
    for name in ("labels", "modes", "bandwidths", "densities"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("turn", [np.flipud, np.fliplr, np.rot90, lambda a: a.swapaxes(0, 1)])
def test_segment_image_turns_labels_with_the_image(turn):
    scene = synthetic.discs(48, 72)
    labels = segment_image(np.ascontiguousarray(turn(scene.rgb))).labels
    np.testing.assert_array_equal(labels, raster_order(turn(scene.labels)))


def test_segment_image_shifts_labels_with_the_scene():
    """What lies further from the border than any window does not feel it."""
    scene = synthetic.discs(64, 96)
    ground = np.tile(synthetic.PALETTE[0], (64, 8, 1))
    moved = np.concatenate([ground, scene.rgb[:, :-8]], axis=1)
    labels = segment_image(moved).labels
    np.testing.assert_array_equal(labels[:, 8:] > 0, scene.labels[:, :-8] > 0)


def test_labels_of_an_image_are_dense_in_raster_order_and_connected():
    result = segment_image(draw_scene(60, 90))
    labels = result.labels
    np.testing.assert_array_equal(labels, raster_order(labels))
    assert result.count == labels.max() + 1 > 10
    assert skimage.measure.label(labels, background=-1, connectivity=1).max() == result.count
    assert np.bincount(labels.ravel()).min() >= Params().post.min_size


def test_segment_image_cuts_the_same_tree_for_a_number_of_segments():
    rgb = draw_scene(60, 90)
    default, few = segment_image(rgb), segment_image(rgb, segments=6)
    assert few.count == 6
    np.testing.assert_array_equal(few.labels, default.tree.cut(segments=6))


def test_modes_of_an_image_stand_in_their_segments_with_their_colours():
    scene = synthetic.quarters()
    result = segment_image(scene.rgb)
    lab = features.lab_planes(scene.rgb)
    for segment, mode in enumerate(result.modes):
        x, y = np.rint(mode[3:]).astype(int)
        assert result.labels[y, x] == segment
        np.testing.assert_allclose(mode[:3], lab[:, y, x], atol=0.5)


def test_bandwidths_of_an_image_have_no_eigenvalue_below_the_floor():
    params = Params()
    result = segment_image(draw_scene(60, 90))
    assert result.bandwidths.shape == (result.count, 5, 5)
    colour = np.linalg.eigvalsh(result.bandwidths[:, :3, :3].astype(np.float64))
    space = np.linalg.eigvalsh(result.bandwidths[:, 3:, 3:].astype(np.float64))
    assert colour.min() > 0.99 * 0.25 * params.colour.sigma2
    assert space.min() > 0.99 * 0.25 * params.space.sigma2
    assert (result.bandwidths[:, :3, 3:] == 0).all()
    assert ((result.densities > 0) & (result.densities <= 1)).all()


def test_bandwidth_of_a_long_shape_is_long_along_it():
    rgb = np.full((40, 80, 3), 240, np.uint8)
    rgb[16:24, 8:72] = (40, 80, 200)
    result = segment_image(rgb)
    space = result.bandwidths[result.labels[20, 40], 3:, 3:]
    assert space[0, 0] > 2 * space[1, 1]


def test_history_shows_that_clusters_never_grow_in_number():
    history = segment_image(draw_scene(60, 90)).history
    assert np.all(np.diff(history.clusters) <= 0)
    assert history.clusters[0] == 60 * 90 - history.merges[0]
    np.testing.assert_array_equal(history.clusters[:-1] - history.merges[1:], history.clusters[1:])
    assert np.all(history.updates.sum(axis=1) == history.moved)
    assert np.all(history.largest_shift >= history.mean_shift)


def test_history_of_dense_data_is_down_to_five_percent_by_iteration_twelve():
    params = Params().overridden(["core.min_merge_share=0", "core.max_iterations=12"])
    for rgb in (draw_scene(60, 90), synthetic.discs(sigma=8).rgb):
        history = segment_image(rgb, params).history
        assert history.clusters[-1] < 0.05 * rgb.shape[0] * rgb.shape[1]


def test_history_counts_all_three_updates():
    params = Params().overridden(["core.min_merge_share=0", "core.max_iterations=15"])
    history = segment_image(draw_scene(60, 90), params).history
    assert (history.updates.sum(axis=0) > 0).all()
    np.testing.assert_array_equal(history.updates[0], [60 * 90, 0, 0])


def test_segment_image_stops_early_on_an_easy_scene():
    assert segment_image(synthetic.flat().rgb).n_iter == 1
    assert segment_image(synthetic.quarters().rgb).n_iter <= 3


def test_mean_shift_converges_where_bandwidths_vary():
    """Every cluster comes to rest: the shifts fall below δ before the iterations run out."""
    params = Params().overridden(["core.min_merge_share=0", "core.max_iterations=1000"])
    result = segment_image(synthetic.discs(48, 72, sigma=4).rgb, params)
    assert result.n_iter < 1000
    assert result.history.moved[-1] < result.history.moved[1]


def test_segment_image_run_on_to_convergence_keeps_a_clear_partition():
    rgb = synthetic.discs().rgb
    params = Params().overridden(["core.min_merge_share=0"])
    early, late = segment_image(rgb), segment_image(rgb, params)
    assert late.n_iter > early.n_iter
    np.testing.assert_array_equal(early.labels, late.labels)


def test_segment_image_ends_at_max_iterations_in_any_case():
    params = Params().overridden(["core.min_merge_share=0", "core.max_iterations=3"])
    assert segment_image(draw_scene(48, 64), params).n_iter == 3


def test_segment_image_takes_settings_from_a_file(tmp_path):
    path = tmp_path / "coarse.toml"
    path.write_text("[post]\nlevel = 1000.0\n", encoding="utf-8")
    assert segment_image(synthetic.quarters().rgb, path).count == 1
    assert segment_image(synthetic.quarters().rgb, str(path)).count == 1
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        segment_image(synthetic.quarters().rgb, tmp_path / "none.toml")


@pytest.mark.parametrize("criterion", ["bhattacharyya", "size-aware"])
def test_segment_image_finds_the_drawn_regions_by_both_criteria(criterion):
    scene = synthetic.landscape()
    params = Params().overridden([f"post.criterion={criterion}"])
    assert metrics.pri(segment_image(scene.rgb, params).labels, scene.labels) > 0.98


def test_segment_image_takes_the_parameters_of_the_paper():
    scene = synthetic.landscape()
    params = Params().overridden(
        ["colour.sigma2=20", "colour.epsilon2=1", "space.sigma2=36", "space.epsilon2=64"]
    )
    assert metrics.pri(segment_image(scene.rgb, params).labels, scene.labels) > 0.98


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (np.zeros((0, 0, 3), np.uint8), "at least one pixel"),
        (np.full((4, 4, 3), np.nan), "uint8 or uint16, got float64"),
        (np.full((4, 4), np.inf, np.float32), "uint8 or uint16, got float32"),
        (np.zeros((4, 4, 7), np.uint8), "shape"),
        (np.zeros((2, 4, 4, 3), np.uint8), "shape"),
    ],
)
def test_segment_image_refuses_what_is_no_image(image, message):
    with pytest.raises(ValueError, match=message):
        segment_image(image)


@pytest.mark.parametrize("segments", [0, -3])
def test_segment_image_refuses_a_number_of_segments_below_one(segments):
    with pytest.raises(ValueError, match=f"segments must be >= 1, got {segments}"):
        segment_image(synthetic.flat().rgb, segments=segments)


DIGEST = """
import hashlib
from aaams_stream import segment_image
from support.synthetic import draw_scene
result = segment_image(draw_scene({shape}))
for name in ("labels", "modes", "bandwidths", "densities"):
    print(hashlib.sha256(getattr(result, name).tobytes()).hexdigest())
"""


def test_segment_image_does_not_depend_on_the_number_of_threads():
    """Bit for bit, on enough rows for several bands and enough pixels for three threads."""
    one, two, three = (
        run_python(DIGEST.format(shape="300, 180"), AAAMS_THREADS=str(n)) for n in (1, 2, 3)
    )
    assert one == two == three


def test_segment_image_gives_the_same_labels_without_compilation():
    found = run_python(DIGEST.format(shape="14, 20"), NUMBA_DISABLE_JIT="1").split()[0]
    expected = segment_image(draw_scene(14, 20)).labels
    assert expected.max() > 1
    assert found == hashlib.sha256(expected.tobytes()).hexdigest()


def test_kernels_of_an_image_are_compiled_for_one_signature_only():
    """More would mean that callers are careless with types, and pay for it in compile time."""
    code = """
import numpy as np
from aaams_stream import segment_image
from aaams_stream.kernels import agglomerate, mean_shift, merge_tree, modes, region_graph
for image in (np.zeros((3, 5), np.uint8), np.zeros((20, 33, 3), np.uint16)):
    segment_image(image)
    segment_image(image[::-1], segments=2)
for module in (agglomerate, mean_shift, merge_tree, modes, region_graph):
    for name, kernel in vars(module).items():
        if len(getattr(kernel, "signatures", ())) > 1:
            print(name, len(kernel.signatures))
"""
    assert run_python(code) == ""
