"""The video measures: hand cases, what must not matter, and what each of them is there to see."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.ndimage import distance_transform_edt

from aaams_stream import metrics
from aaams_stream.kernels.metrics import count_near, count_pairs, mark_boundaries
from aaams_stream.metrics.video import boundary_reach

# Two frames of one row. Truth: the object moves one pixel to the right.
TRUTH = np.array([[[0, 0, 1, 1, 0, 0]], [[0, 0, 0, 1, 1, 0]]])
IDS = np.array([[[1, 1, 1, 2, 2, 2]], [[1, 1, 1, 2, 2, 3]]])


def clips(least=1):
    """Return a strategy for ids and truth of one small clip."""
    shapes = st.tuples(st.integers(least, 4), st.integers(1, 6), st.integers(1, 6))
    return shapes.flatmap(
        lambda shape: st.tuples(
            hnp.arrays(np.int32, shape, elements=st.integers(0, 5)),
            hnp.arrays(np.int32, shape, elements=st.integers(0, 3)),
        )
    )


def moving_square(frames=6, size=(40, 60)):
    """Return the truth of a square that crosses the picture."""
    truth = np.zeros((frames, *size), dtype=np.uint8)
    for t in range(frames):
        truth[t, 10:24, 8 + 3 * t : 22 + 3 * t] = 1
    return truth


def close(first, second):
    """Whether two records of scores are equal but for rounding."""
    pairs = zip(dataclasses.astuple(first), dataclasses.astuple(second), strict=True)
    return all(
        (a is None) == (b is None) and (a is None or a == pytest.approx(b)) for a, b in pairs
    )


def test_ue3d_of_a_hand_case():
    # |1| = 6, |2| = 5, |3| = 1. Background (8 px) meets 1, 2 and 3; the object (4) meets 1 and 2.
    assert metrics.score_video(IDS, TRUTH).ue3d == pytest.approx(((12 - 8) / 8 + (11 - 4) / 4) / 2)


def test_sa3d_of_a_hand_case():
    # 1: 5 of 6 in the background; 2: 3 of 5 in the object; 3: background.
    assert metrics.score_video(IDS, TRUTH).sa3d == pytest.approx((6 / 8 + 3 / 4) / 2)


def test_sa3d_counts_half_inside_as_inside_for_both_sides():
    # One supervoxel, two pixels, one in each truth segment.
    assert metrics.score_video([[[1, 1]]], [[[0, 1]]]).sa3d == 1


def test_j_oracle_of_a_hand_case():
    # 2 takes the object (3 of 5). Frame 0: {3,4,5} against {2,3}; frame 1: {3,4} against {3,4}.
    assert metrics.score_video(IDS, TRUTH).j_oracle == pytest.approx((1 / 4 + 1) / 2)


def test_j_prop_of_a_hand_case():
    # In frame 0, 2 has one object pixel of three and 1 one of three: nothing is the object.
    assert metrics.score_video(IDS, TRUTH).j_prop == 0
    # With a boundary at 2, the segment {2, 3, 4} has two of three, and covers {2, 3, 4} later.
    ids = np.array([[[1, 1, 2, 2, 2, 3]], [[1, 1, 2, 2, 2, 3]]])
    assert metrics.score_video(ids, TRUTH).j_prop == pytest.approx(2 / 3)


def test_j_oracle_and_j_prop_give_a_tie_to_the_lower_label():
    scores = metrics.score_video([[[1, 1]], [[1, 1]]], [[[0, 1]], [[0, 1]]])
    assert (scores.j_oracle, scores.j_prop) == (0, 0)


def test_life_and_counts_of_a_hand_case():
    scores = metrics.score_video(IDS, TRUTH)
    assert (scores.n_sv, scores.frames, scores.per_frame) == (3, 2, 2.5)
    assert scores.life == pytest.approx((2 + 2 + 1) / 3)
    assert scores.life_vol == pytest.approx((2 * 6 + 2 * 5 + 1 * 1) / 12)


def test_life_is_the_frames_an_id_is_seen_in():
    ids = np.array([[[1, 2]], [[1, 1]], [[1, 2]]])
    assert metrics.score_video(ids, np.zeros_like(ids)).life == pytest.approx((3 + 2) / 2)


def test_contour_counts_both_sides_of_an_edge():
    # Frame 0: pixels 2 and 3; frame 1: 2, 3, 4 and 5.
    assert metrics.score_video(IDS, TRUTH).contour == pytest.approx((2 / 6 + 4 / 6) / 2)


def test_br_and_bp_of_a_hand_case():
    # Within 2 px. The truth has an edge at 20 | 21, we have two: 22 | 23 and 40 | 41.
    truth, ids = np.zeros((1, 5, 50), int), np.ones((1, 5, 50), int)
    truth[..., 21:] = 1
    ids[..., 23:] = 2
    ids[..., 41:] = 3
    scores = metrics.score_video(ids, truth)
    assert scores.br == 1  # 20 → 22, 21 → 22
    assert scores.bp == pytest.approx(2 / 4)  # 22 → 21 and 23 → 21, but not 40 and 41


def test_boundary_reach_is_two_pixels_or_four_thousandths_of_the_diagonal():
    assert boundary_reach((240, 427)) == 2
    assert boundary_reach((480, 854)) == 4
    assert boundary_reach((2160, 3840)) == 18


def test_br_and_bp_leave_out_frames_without_a_truth_boundary():
    truth = moving_square(3)
    truth[1] = 0
    ids = truth + 1
    scores = metrics.score_video(ids, truth)
    assert (scores.br, scores.bp) == (1, 1)
    assert metrics.score_video(ids, np.zeros_like(truth)).br is None
    plain = metrics.score_video(np.ones_like(truth), truth)
    assert (plain.br, plain.bp) == (0, None)


def test_ev_of_a_hand_case():
    # Reds 0, 2 | 10, 12: mean 6, total 36 + 16 + 16 + 36 = 104; means 1 and 11: 4 · 25 = 100.
    rgb = np.zeros((1, 1, 4, 3), dtype=np.uint8)
    rgb[0, 0, :, 0] = [0, 2, 10, 12]
    ids = np.array([[[1, 1, 2, 2]]])
    assert metrics.score_video(ids, ids, rgb).ev == pytest.approx(100 / 104)


def test_ev_takes_one_mean_for_the_whole_life_of_a_supervoxel():
    rgb = np.zeros((2, 1, 2, 3), dtype=np.uint8)
    rgb[1] = 100
    one, two = np.ones((2, 1, 2), int), np.array([[[1, 1]], [[2, 2]]])
    assert metrics.score_video(one, one, rgb).ev == pytest.approx(0)
    assert metrics.score_video(two, one, rgb).ev == pytest.approx(1)


def test_ev_of_one_colour_has_nothing_to_explain():
    rgb = np.full((2, 3, 4, 3), 77, dtype=np.uint8)
    assert metrics.score_video(np.ones((2, 3, 4), int), np.ones((2, 3, 4), int), rgb).ev == 1


def test_ev_needs_every_picture():
    scores = metrics.VideoScores()
    scores.add(IDS[0], TRUTH[0], np.zeros((1, 6, 3), np.uint8))
    assert scores.result().ev == 1
    scores.add(IDS[1], TRUTH[1])
    assert scores.result().ev is None


def test_j_oracle_and_j_prop_average_over_the_objects_in_the_frame():
    truth = np.array([[[0, 1, 1, 2]], [[0, 1, 1, 0]]])
    ids = np.array([[[1, 2, 2, 2]], [[1, 2, 3, 1]]])
    # 2 takes 1 (3 of 4 px), 3 takes 1. Frame 0: object 1 has 2/3, object 2 nothing; frame 1: 1.
    assert metrics.score_video(ids, truth).j_oracle == pytest.approx(((2 / 3 + 0) / 2 + 1) / 2)
    # 3 is unknown in frame 0: object 1 keeps one pixel of two.
    assert metrics.score_video(ids, truth).j_prop == pytest.approx(1 / 2)


def test_j_prop_leaves_out_what_frame_0_does_not_have():
    truth = np.array([[[0, 1, 0]], [[0, 1, 2]]])
    assert metrics.score_video(truth + 1, truth).j_prop == 1
    late = np.array([[[0, 0]], [[0, 1]]])
    scores = metrics.score_video(late + 1, late)
    assert (scores.j_prop, scores.j_oracle) == (None, 1)
    assert metrics.score_video(IDS[:1], TRUTH[:1]).j_prop is None


def test_j_oracle_leaves_out_frames_without_an_object():
    truth = moving_square(4)
    truth[2] = 0
    assert metrics.score_video(truth + 1, truth).j_oracle == 1


def test_ignore_takes_pixels_out_of_all_that_needs_the_truth():
    random = np.random.default_rng(1)
    truth = moving_square(4)
    ids = truth + 1 + 2 * (np.arange(60) // 20).astype(np.uint8)
    noisy, blind = ids.copy(), truth.copy()
    blind[:, 30:] = 255
    noisy[:, 30:] = random.integers(100, 200, noisy[:, 30:].shape)
    scores = metrics.score_video(noisy, blind, ignore=255)
    cut = metrics.score_video(ids[:, :30], truth[:, :30])
    for name in ("ue3d", "sa3d", "j_oracle", "j_prop", "br"):
        assert getattr(scores, name) == pytest.approx(getattr(cut, name)), name
    assert scores.n_sv > cut.n_sv
    assert scores.contour > cut.contour
    several = np.where(np.arange(60) < 30, blind, np.where(blind == 255, 254, blind))
    assert close(metrics.score_video(noisy, several, ignore=(254, 255)), scores)


def test_ignore_of_all_the_truth_leaves_what_needs_none():
    scores = metrics.score_video(IDS, np.full_like(TRUTH, 9), ignore=9)
    needs = (scores.ue3d, scores.sa3d, scores.j_oracle, scores.j_prop, scores.br, scores.bp)
    assert needs == (None,) * 6
    assert scores.n_sv == 3


def test_score_video_of_the_truth_itself_is_perfect():
    truth = moving_square()
    rgb = np.repeat((truth * 200)[..., None], 3, axis=-1)
    scores = metrics.score_video(truth + 1, truth, rgb)
    assert (scores.ue3d, scores.sa3d, scores.j_oracle, scores.j_prop) == (0, 1, 1, 1)
    assert (scores.br, scores.bp) == (1, 1)
    assert scores.ev == pytest.approx(1)
    assert (scores.life, scores.life_vol, scores.per_frame, scores.n_sv) == (6, 6, 2, 2)


def test_score_video_of_a_refinement_loses_only_precision():
    truth = moving_square()
    finer = truth + 1 + 2 * (np.arange(60) // 9).astype(np.uint8)
    scores = metrics.score_video(finer, truth)
    assert (scores.ue3d, scores.sa3d, scores.j_oracle, scores.br) == (0, 1, 1, 1)
    assert scores.bp < 1


def test_score_video_of_ids_that_break_in_time_loses_j_prop_and_life_alone():
    truth = moving_square()
    ids = truth.astype(np.uint32) + 1
    broken = ids + 10 * (np.arange(len(ids)) // 2).astype(np.uint32)[:, None, None]
    whole, pieces = metrics.score_video(ids, truth), metrics.score_video(broken, truth)
    assert pieces.j_prop == pytest.approx(1 / 5)  # frame 1 is still named, 2 to 5 are not
    assert (pieces.life, pieces.life_vol, pieces.n_sv) == (2, 2, 6)
    same = dataclasses.replace(
        pieces, j_prop=whole.j_prop, life=whole.life, life_vol=whole.life_vol, n_sv=whole.n_sv
    )
    assert close(same, whole)


@given(clips(), st.permutations(range(6)), st.integers(0, 2**32 - 6))
@settings(deadline=None, max_examples=60)
def test_score_video_does_not_depend_on_names_of_ids(clip, order, offset):
    ids, truth = clip
    rgb = np.stack([truth * 60, ids * 40, truth + ids], axis=-1).astype(np.uint8)
    expected = metrics.score_video(ids, truth, rgb)
    renamed = (np.array(order)[ids] + offset).astype(np.uint32)
    assert close(metrics.score_video(renamed, truth, rgb), expected)


@given(clips())
@settings(deadline=None, max_examples=60)
def test_region_measures_agree_with_plain_loops(clip):
    ids, truth = clip
    ue, sa = [], []
    for g in np.unique(truth):
        inside = truth == g
        touching = [ids == s for s in np.unique(ids[inside])]
        ue.append((sum(s.sum() for s in touching) - inside.sum()) / inside.sum())
        mostly = [s for s in touching if 2 * (s & inside).sum() >= s.sum()]
        sa.append(sum((s & inside).sum() for s in mostly) / inside.sum())
    scores = metrics.score_video(ids, truth)
    assert scores.ue3d == pytest.approx(np.mean(ue))
    assert scores.sa3d == pytest.approx(np.mean(sa))
    assert scores.life == pytest.approx(
        np.mean([(ids == s).any(axis=(1, 2)).sum() for s in np.unique(ids)])
    )
    assert scores.n_sv == len(np.unique(ids))


@given(clips(least=2))
@settings(deadline=None, max_examples=60)
def test_object_measures_agree_with_plain_loops(clip):
    ids, truth = clip
    truth = np.minimum(truth, 1)

    def mean_overlap(named, frames):
        overlaps = []
        for t in frames:
            painted = np.isin(ids[t], list(named))
            if truth[t].any():
                overlaps.append(
                    (painted & (truth[t] == 1)).sum() / (painted | (truth[t] == 1)).sum()
                )
        return pytest.approx(np.mean(overlaps)) if overlaps else None

    every = {s for s in np.unique(ids) if 2 * truth[ids == s].sum() > (ids == s).sum()}
    first = {s for s in np.unique(ids[0]) if 2 * truth[0][ids[0] == s].sum() > (ids[0] == s).sum()}
    scores = metrics.score_video(ids, truth)
    assert scores.j_oracle == mean_overlap(every, range(len(ids)))
    assert scores.j_prop == (mean_overlap(first, range(1, len(ids))) if truth[0].any() else None)


@given(hnp.arrays(bool, (9, 12)), hnp.arrays(bool, (9, 12)), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_count_near_is_euclidean(marked, others, reach):
    others[4, 5] = True
    expected = (distance_transform_edt(~others)[marked] <= reach).sum()
    assert count_near(marked.view(np.uint8), others.view(np.uint8), reach) == expected


def test_count_pairs_gets_a_larger_table_where_pairs_fill_it():
    ids = np.arange(100 * 90, dtype=np.uint32).reshape(1, 100, 90)
    scores = metrics.score_video(ids, np.zeros_like(ids))
    assert (scores.n_sv, scores.sa3d) == (9000, 1)


def test_kernels_compile_once():
    for dtype in (np.uint8, np.int64, np.uint32):
        metrics.score_video(IDS.astype(dtype), TRUTH.astype(dtype), ignore=7)
        metrics.score_video(IDS, TRUTH, np.zeros((2, 1, 6, 3), np.uint8))
    for kernel in (count_pairs, mark_boundaries, count_near):
        assert len(getattr(kernel, "signatures", [None])) == 1


@pytest.mark.parametrize(
    ("ids", "truth", "rgb", "text"),
    [
        (np.zeros((4, 5)), np.zeros((4, 5), int), None, "ids of frame 0 must hold integers"),
        (np.zeros((4, 5), int), np.zeros((4, 5)), None, "truth of frame 0 must hold integers"),
        (np.zeros(4, int), np.zeros(4, int), None, r"shape \(h, w\), got \(4,\)"),
        (np.zeros((4, 5), int), np.zeros((5, 4), int), None, r"shape \(4, 5\), got \(5, 4\)"),
        (np.full((4, 5), -1), np.zeros((4, 5), int), None, "0 to 4294967295, got -1 to -1"),
        (np.zeros((4, 5), int), np.zeros((4, 5), int), np.zeros((4, 5, 3)), "rgb of frame 0"),
    ],
)
def test_add_says_what_was_expected_of_a_bad_frame(ids, truth, rgb, text):
    with pytest.raises(ValueError, match=text):
        metrics.VideoScores().add(ids, truth, rgb)


def test_video_scores_want_a_frame_and_frames_of_one_size():
    scores = metrics.VideoScores()
    with pytest.raises(ValueError, match="nothing to score"):
        scores.result()
    scores.add(IDS[0], TRUTH[0])
    with pytest.raises(ValueError, match=r"ids of frame 1 must have shape \(1, 6\), got \(2, 2\)"):
        scores.add(np.ones((2, 2), int), np.ones((2, 2), int))
