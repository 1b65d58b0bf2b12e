"""The constants of the method, each with its reason.

`Params` are a user's settings: how much detail, how many segments. What stands here belongs to the
method itself and is the same for every clip. Figures are those of `benchmarks/video_quality.py`
(`--ablation` leaves one ingredient out at a time, by a `Tuning` without it).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """The constants of the method; `dataclasses.replace(Tuning(), outlier=3.0)` tries another.

    Lengths are in pixels of the picture that is segmented, colours in L*a*b* units, times in
    frames, shares in parts of 1, unless a line says otherwise.
    """

    # Scale: segmenting a smaller picture ----------------------------------------------------------
    # Frames are not made smaller than this side: windows need room. Larger: small frames take
    # longer; smaller: windows hang over their rims.
    min_side: int = 48
    # Share of pixels down to which lengths in the settings shrink with the picture, and squared
    # pixels below which they do not: clusters one pixel apart must still be able to meet.
    min_length_share: float = 0.25
    min_length2: float = 2.0
    # Squared RGB levels in which a vote fades when labels are brought to the frame's own pixels.
    # Larger: outlines are smooth and cut corners; smaller: they follow every grain.
    upsample_alike2: float = 600.0

    # Optical flow (dense inverse search) ----------------------------------------------------------
    # Pixels between patches, at most their side of 8, and steps of each search. A stride of 3 finds
    # one pixel in a hundred more, in three times the time; more than two steps find no more.
    flow_stride: int = 6
    flow_steps: int = 2

    # Alg. 1 on the grid ---------------------------------------------------------------------------
    # ξ of Eq. 6 as a share of σ². Larger: bandwidths are rounder and never narrow, so thin
    # structures melt into what lies beside them; smaller: clusters on flat ground shrink to
    # nothing and stop meeting.
    variance_floor: float = 0.25
    # Members from which a cluster has a bandwidth of its own: max(dim r, dim s)², the paper's
    # footnote. Larger: longer with the base bandwidth, less anisotropy; smaller: noisy bandwidths.
    adaptive_members: int = 9
    # Iterations for pixels without a label in a warm frame. More cost time and change little: what
    # has not joined by then is sorted out as regions.
    warm_iterations: int = 1
    # Windows of warm frames are read every so many rows: the mean of a third of the pixels of a
    # window is as good (j_oracle .840, .839 and .837 with 3, 2 and 1). 1: all rows, in thrice the
    # time.
    warm_thin: int = 3

    # Propagation: which pixels are what they were -------------------------------------------------
    # σ of its segment's colours beyond which a warped pixel is re-estimated. Larger: segments
    # drift onto what moves over them; smaller: texture is decided again and again, and flickers.
    outlier: float = 2.25
    # σ within which a pixel that changed stays in its segment all the same. Larger: blur and new
    # light break less, but what is uncovered in like colours is taken over; 0: every change
    # counts.
    inlier: float = 1.25
    # Frames in which every segment is searched for outliers once. Larger: cheaper, and errors live
    # that much longer.
    watch: int = 2
    # A scene change: less than this share of the picture is explained, and half of what can be
    # compared differs by more than `strange`. Larger: fast motion passes for a cut and every
    # identity is lost; smaller: cuts between like pictures go unnoticed and identities cross them.
    scene_change_share: float = 0.3
    strange: float = 8.0

    # Recovery: segments the flow lost, found as a whole -------------------------------------------
    # Share of its pixels that a segment must miss to be searched for. Smaller: more are searched
    # for that are only partly hidden, which takes time; larger: fast things lose their identity.
    missing: float = 0.4
    # Pixels a segment must have to be searched for: a smaller one looks like too much else.
    # Larger: small things that leap are lost; smaller: they turn up where they are not.
    recover_min_area: int = 40
    # Pixels of it that are compared. More are surer and slower.
    recover_samples: int = 32
    # Pixels around where its motion would bring it. Larger: faster leaps are found, at the square
    # of the time, and so are more mistakes.
    recover_reach: int = 32
    # Pixels between the first tries. Larger: faster, and things narrower than that are missed.
    recover_pace: int = 4

    # Two motions in one segment -------------------------------------------------------------------
    # Every n-th pixel of every n-th row is looked at: the flow is known at half the resolution.
    # Larger: faster, and small segments are left out.
    split_stride: int = 2
    # Rounds of 2-means. It has converged after four on all clips.
    split_rounds: int = 4
    # Pixels that are looked at, below which the motion of a segment is not sure. Larger: small
    # segments are never torn; smaller: they are torn by noise.
    split_min_samples: int = 25
    # Pixels a frame between the two motions. Larger: only things that part fast are told apart;
    # smaller: errors of the flow tear segments.
    split_gap: float = 3.0
    # Least share of the pixels that either motion must have. Larger: small parts that go astray
    # stay; smaller: slivers at edges, where flow is smeared, are dropped again and again.
    split_min_share: float = 0.15
    # Share of the variance that two motions must explain. Smaller: turns and zooms, whose motion
    # varies smoothly, are torn; larger: nothing is found in noisy flow.
    split_explained: float = 0.85

    # Refresh: no early error lives for ever -------------------------------------------------------
    # Frames before a coarse segment is re-estimated again. Smaller: the same few take every turn.
    refresh_rest: int = 6
    # Side of the squares in which large segments are re-estimated. Larger: uneven work and visible
    # patches; smaller: squares too small to hold a region of their own.
    refresh_tile: int = 48
    # A segment is large above this multiple of the share of the picture that is due. Larger: whole
    # skies are dropped in one frame, which takes time and may lose them.
    refresh_large: float = 1.0

    # Where more than usual are wanted, the power of how many times more: by that multiple coarse
    # segments are re-estimated while there are fewer than wanted. Larger: lost ones are made up for
    # sooner; smaller: counts beyond a thousand are not held.
    refresh_more: float = 1.5

    # Boundaries -----------------------------------------------------------------------------------
    # Votes for the label that was predicted, one being a neighbour of equal colour. Larger:
    # boundaries lag behind what moves; smaller: they flicker.
    vote_stay: float = 1.0
    # Votes with which a pixel without a label joins a neighbour segment. Larger: more pixels run
    # Alg. 1, slower and with more slivers; smaller: what is new is swallowed by what lies beside
    # it.
    vote_join: float = 2.0
    # Rounds in which they may join, a pixel deep each. 0: every fringe becomes a region of its
    # own.
    vote_rounds: int = 3

    # Merging regions (Alg. 2, size-aware) ---------------------------------------------------------
    # Share of the picture at which a region weighs 1, and gradient per pixel at which an edge
    # does: units that put a good cut of a photograph at level 1. Larger: every level is lower, so
    # a given `post.level` merges more; only their product matters for a stream, whose level is
    # sought.
    unit_share: float = 0.0065
    unit_edge: float = 5.0
    # Squared pixels a frame between two regions at which they differ √2 times as much. Smaller:
    # motion decides, and errors of the flow tear things; larger: what parts is glued together.
    parting_sq: float = 10.0
    # The same of a region against the scene: by as much it resists newcomers, which are mostly
    # what it uncovers. Smaller: things that move never grow back; larger: they drag the ground
    # along.
    moving_sq: float = 2.0
    # How much of the difference between their motions counts against what was predicted to be a
    # segment and joins it again, as squares; never more than the segment's own speed. Larger:
    # folds and blur on things that move become segments of their own; 0: what is uncovered behind
    # them in like colours is taken for them (j_oracle −.006).
    along: float = 4.0
    # Step in colour from one side of a contact to the other, the mean along it, below which there
    # is nothing to see: L*a*b* units from pixel to pixel of the smoothed picture. Larger: soft
    # shadows melt away; 0: skies are cut where light changes and noise decides.
    faint: float = 0.4
    # Frames in which a segment may merge again with one that it cannot be told from. Larger: old
    # neighbours merge and part with the noise; smaller: flat ground stays cut where something
    # passed over it.
    settle: int = 30
    # Pixels between those at which the motion of the scene is looked up. Larger: faster, and less
    # sure where little of the ground is seen.
    scene_stride: int = 8
    # Level below which a difference is noise and not worth a segment, however many are wanted.
    # Larger: flat pictures have fewer segments than wanted; smaller: sky is cut by its grain.
    noise_level: float = 0.1
    # How hard the level is pulled towards the wanted number of segments, as an exponent. Larger:
    # the number is met sooner and swings; smaller: it takes seconds after a change.
    level_pull: float = 0.25
    # Levels up to which regions of one origin stay together, and two tracks merge, as multiples of
    # the level. Larger one_origin: segments hold together, and what comes apart does so late;
    # larger two_tracks: lives get shorter, since old neighbours merge.
    one_origin: float = 3.0
    two_tracks: float = 0.25
    # Share of the picture that a new segment must have. Larger: small things are missed; smaller:
    # slivers are born at every edge and die again.
    min_birth: float = 1.5e-4
    # Pixels that a new segment must have in any case. Larger: small things in small pictures are
    # missed; smaller: the mixed colours along every edge are born, die and come back.
    least_birth: int = 16
    # Segments a frame for which sizes and differences here are meant. Where more are wanted, what
    # may be a segment is smaller and fainter in proportion. Smaller: more counts are met late.
    usual_segments: int = 290
    # Share of that with which an old one lives on. Larger: what shrinks is lost sooner.
    min_survival: float = 0.25
    # Pixels with which one lives on in any case, where more than usual are wanted. 1: single pixels
    # are looked at one by one, which takes time; larger: many die of the loss of a pixel.
    least_survival: int = 2
    # Multiple of the mean size wanted above which regions merge less readily. Larger: the ground
    # swallows what is small, bit by bit; smaller: skies are cut.
    bulk: float = 9.0

    # Association: who is who ----------------------------------------------------------------------
    # Share of its pixels that makes one segment the heir of another. Larger: more births and
    # deaths in place of splits and merges; smaller: kinship by a graze.
    heir_share: float = 0.5
    # Lost identities remembered at a time. Larger: more time to match them in busy scenes;
    # smaller: the oldest of them cannot come back.
    max_lost: int = 512
    # How fast the largest area of a segment is forgotten, a frame. Larger: what shrinks for good
    # counts as hidden for long.
    area_fade: float = 0.9
    # How far a returning segment may lie off: σ in colour and place, and a factor in size. Larger:
    # more identities come back, and more of them to something else.
    return_colour: float = 1.2
    return_place: float = 2.0
    return_area: float = 3.0
    # The variance of its place: a share of its area, and for each frame it was away so many
    # squared pixels, more where it moved. Larger: it is taken back from farther off, and so is a
    # stranger.
    place_area: float = 0.1
    place_frame: float = 16.0
    place_motion: float = 0.1
    # A part that comes out from behind something: σ in colour, radii from where the whole would
    # be, and the share of the whole that must be hidden. Larger place: long things keep their
    # identity on both sides of a post, and like things beside each other swap theirs.
    part_colour: float = 1.0
    part_place: float = 2.5
    part_hidden: float = 0.1
    # Share of its largest area below which a segment is partly hidden, and keeps moving as it did.
    # Larger: what merely turns counts as hidden; smaller: what is being hidden takes over the
    # motion of what hides it.
    whole: float = 0.85
    # Share of that below which it was being hidden, and is no part of what hides it. Larger: real
    # merges count as deaths; smaller: what goes behind something merges with it.
    swallowed: float = 0.5
    # How much of a segment's motion is that of the last frame. Larger: follows turns at once, and
    # every error of the flow too.
    new_motion: float = 0.5
    # Frames in which a new segment may turn out to be an earlier one: what comes into view is a
    # sliver first. Larger: more identities are mended late, and more wrongly; -1: none.
    probation: int = 5
    # Multiple of an earlier segment's size, a frame ago, up to which a new one may turn out to be
    # it. Larger: small things take over what is large (merges in which the larger name is gone
    # .4 % with 2, 1.5 % without a limit, j_oracle −.003).
    outgrown: float = 2.0
    # How much of its earlier colours a segment keeps, a frame. Larger: it follows new light
    # slowly; smaller: it drifts onto what lies beside it.
    colour_memory: float = 0.8

    # Ingredients that can be left out, to see what they earn --------------------------------------
    motion_in_merging: bool = True
    recover_lost: bool = True
    split_motions: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.flow_stride <= 8:  # patches must leave no gaps
            raise ValueError(f"flow_stride must lie in 1..8 pixels, got {self.flow_stride!r}")
        if self.warm_thin < 1:  # a step of no rows ends a kernel, and one upwards reads none
            raise ValueError(f"warm_thin must be at least 1 row, got {self.warm_thin!r}")


DEFAULT = Tuning()
