"""The constants of the tracker, each with what it does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrackerTuning:
    """What the tracker weighs, and how much; one setting serves all clips.

    Chosen on sequences of DAVIS with `benchmarks/following.py`, by a search in which a change had
    to hold on the sequences mirrored, too: there luck falls otherwise. Lengths are shares of the
    picture's diagonal or of the object's size (the root of its area), so that they hold at any
    resolution. A belief is a number from 0 to 1, log odds are its logit.
    """

    # Weights of the witnesses on a segment. The larger one is, the more it overrules the others; at
    # 0 it is not heard.
    identity: float = 0.8  # too large: an id that strays onto the ground takes the mask along
    place: float = 0.3  # too small: the mask leaks to where the object cannot be
    layer_colour: float = 0.76  # too large: what happens to look alike under the object's motion
    layer_place: float = 1.1  # too large: limbs that move on their own are left behind
    colour_first: float = 0.5  # too large: the mask leaks into what has the same colour
    colour_late: float = 0.49  # the same; adapts, and drifts
    parts: float = 0.46  # too large: the object must keep its pose
    change: float = 0.3  # what neither motion explains is rather of the object than of the ground
    contact: float = 1.9  # too large: regions tip over as one; too small: the mask frays

    # What has moved with the ground and not with the object for some frames is no part of it, be it
    # ever so sure by its id and its colour. Weight of that; how much is kept a frame of what was
    # seen before; log odds at most, and those forgiven. Larger weight, memory or limit: limbs that
    # stand on the ground for a moment are left behind; larger slack: what joined by mistake stays.
    along: float = 1.5
    along_memory: float = 0.85
    along_limit: float = 4.0
    along_slack: float = 1.5
    # Share of the object that must be doubted for this to count in full: a small part may be a
    # limb. Larger: small pieces of ground stay with the object.
    along_share: float = 0.3
    # How much less what is doubted bends the motion of the object, per log odds. 0: ground that
    # joined is soon taken for the object itself.
    along_trust: float = 1.0

    # Log odds before any witness has spoken. Lower: smaller masks with fewer false parts.
    bias: float = 0.3

    # Beliefs are kept this far from 0 and 1 before their log odds are taken. Larger: no single
    # witness can settle the matter; smaller: one that is certain outvotes all others.
    belief_margin: float = 0.03
    # The same for what neighbours agreed on. Larger: pixels differ from their segment sooner.
    verdict_margin: float = 0.01

    # L*a*b* units: contacts with more contrast than this hardly count. Larger: beliefs spread
    # across visible edges; smaller: hardly at all, and the mask frays.
    edge_contrast: float = 8.1
    # Rounds of asking the neighbours. More reach farther through the graph and cost time.
    contact_rounds: int = 10
    # Belief that motion must carry to some segment of those that hang together. Larger: what comes
    # out from behind something is refused; smaller: look-alikes beside the object join.
    stray_place: float = 0.11

    # Of the object's size: how far its parts may lie from each other, unless they did in the first
    # frame. Larger: what it touched goes along for longer; smaller: what passes in front of it
    # takes a part away.
    runaway_gap: float = 4.0
    # The same for what goes with the ground. Smaller: a hand that rests for a moment, and shows no
    # arm, is left behind.
    parted_gap: float = 0.5

    # Of the object's size: how far around it the window reaches. Larger: faster limbs are found, in
    # more time, and more look-alikes are near.
    window_reach: float = 0.8
    # Of the object's size: how far a warped mask is blurred. Larger forgives wrong motion but
    # blurs the outline; smaller holds on to an outline that motion misplaced.
    warp_blur: float = 0.1
    # Weight of the belief at the rim for what enters there. Larger: what enters beside an object
    # that touches the rim joins it.
    outside_belief: float = 0.5
    # Of the object's size: how far the mask is blurred where layers are compared.
    layer_blur: float = 0.032
    # L*a*b* units, summed over channels, by which the likelihood of a layer falls to 1/e. Larger
    # forgives changes of light and tells layers apart less.
    layer_pace: float = 5.2
    # Of the diagonal: how unlike motions within one thing are. Larger: outliers bend the motion of
    # object and ground; smaller: it hangs on the first guess.
    motion_spread: float = 0.003

    # How much of the old belief in an id is kept a frame. Larger: slow to notice that an id has
    # strayed; smaller: one bad frame is not forgiven.
    identity_inertia: float = 0.65
    # Ids that are remembered. Fewer: what was hidden for long is not recognised.
    identity_memory: int = 4096

    # Weights of a pixel's own place, layers and colour against its segment's. Larger: segments are
    # cut more freely, and outlines get rough; at 0 masks are made of whole segments.
    pixel_place: float = 0.8
    pixel_layers: float = 0.6
    pixel_colour: float = 0.77
    # As `belief_margin`, for pixels.
    pixel_margin: float = 0.05
    # Log odds by which a pixel may differ from its segment. Larger: even a segment of which all
    # is certain may be cut.
    pixel_limit: float = 3.1

    # Log odds that a colour can give. Smaller: outlines are smoother, and look-alikes join.
    colour_limit: float = 3.0
    # Bins by which histograms are blurred. Larger forgives changes of light and confuses shades.
    colour_blur: float = 0.4
    # Rate a frame at which colours of late follow. Larger adapts faster and drifts faster.
    colour_rate: float = 0.05
    # Of the object's size: how far its surroundings reach. Larger: colours from farther away
    # speak against the object.
    around_reach: float = 0.53
    # Weight of colours beyond the surroundings. Larger: the whole picture speaks against it.
    far_weight: float = 0.1
    # Share below which a colour says nothing of the object, or of its surroundings. That the
    # second is larger says: what is new more likely came from there. Larger: only frequent
    # colours speak.
    rare_object: float = 1e-5
    rare_around: float = 6e-05

    # Parts of the first frame: L*a*b* units and shares of the object's size within which a segment
    # is like one of them, the share of the object below which that says nothing, and log odds at
    # most. Larger reaches: the object may turn and bend, and parts are told apart less.
    parts_colour: float = 4.8
    parts_reach: float = 0.48
    parts_rare: float = 1e-3
    parts_limit: float = 3.0

    # Of the diagonal: side of the cells in which the object is matched as a whole. Larger is
    # faster and coarser.
    match_cell: float = 0.004
    # L*a*b* units over three channels: differences count up to this. Larger: light and what
    # covers the object disturb the match; smaller: everything matches.
    match_limit: float = 15.0
    # Cells a frame within which the object is sought around where it should be. Larger catches
    # faster motion, costs time and finds more look-alikes.
    match_reach: int = 20
    # Cost of a match far from where the object should be, as a share of the worst match. Larger:
    # it moves on as before unless the picture speaks clearly.
    match_pull: float = 0.002
    # Cells an object must have to be matched. Larger: small objects go by optical flow alone.
    match_cells: int = 6
    # Cells that are compared, about, however large the object is. More cost time.
    match_samples: float = 150.0

    # How much the area may change from frame to frame before the threshold gives way, and by how
    # many log odds it may. Larger growth, smaller yield: leaks and losses go unchecked. The other
    # way: the size is held against the witnesses, also where the object really grows or vanishes.
    growth: float = 0.1
    growth_yield: float = 0.36
    # Rate a frame at which the usual size follows. Of that size: what the tracker takes for the
    # object's size at least, and the share of its area below which it is lost. Larger: an object
    # that is nearly covered is sought in a wider place, or given up sooner.
    usual_rate: float = 0.05
    least_size: float = 0.41
    lost_share: float = 0.02

    # How a lost object is known again: weights of the ids of its parts and of its colours, log odds
    # taken off, more of them far from where it was lost, as far as so many of its sizes, and its
    # area as shares of the usual one. Larger weights, smaller doubt: look-alikes
    # are taken for it; the other way: it stays lost.
    back_identity: float = 0.5
    back_colour: float = 0.5
    back_doubt: float = 1.4
    back_far: float = 1.6
    back_reach: float = 5.0
    back_least: float = 0.1
    back_most: float = 2.5
