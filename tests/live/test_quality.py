"""The governor, with a clock of the test's own."""

from __future__ import annotations

from itertools import pairwise

import pytest

from aaams_stream.live import LADDER, Governor, ladder_for
from aaams_stream.params import LEAST_SCALE, Params

BUDGET = 0.033


class Machine:
    """Segments frames at a pace that depends on the quality, as a computer would."""

    def __init__(self, budget=BUDGET):
        self.governor = Governor(budget, LADDER)
        self.now = 100.0
        self.seen = [self.governor.quality]

    def run(self, seconds, full_cost, costs=None):
        """Let frames pass for so long; a frame at full quality takes `full_cost` seconds."""
        end = self.now + seconds
        while self.now < end:
            rung = LADDER.index(self.governor.quality)
            cost = full_cost
            for quality in LADDER[1 : rung + 1]:
                cost *= quality.cost if costs is None else costs
            self.now += max(cost, BUDGET)
            quality = self.governor.note(cost, self.now)
            if quality != self.seen[-1]:
                self.seen.append(quality)
        return self.governor.quality


def test_governor_lets_nothing_give_way_within_the_budget():
    machine = Machine()
    machine.run(30, 0.9 * BUDGET)
    assert machine.seen == [LADDER[0]]


def test_governor_lets_quality_give_way_in_the_documented_order():
    assert [quality.name for quality in LADDER[:4]] == [
        *("full quality", "refresh 1/2", "refresh 1/4", "coarser motion")
    ]
    assert [quality.scale for quality in LADDER] == sorted(
        (quality.scale for quality in LADDER), reverse=True
    )
    machine = Machine()
    machine.run(10, 1.02 * BUDGET)
    assert machine.seen[1] == LADDER[1]
    machine.run(10, 1.2 * BUDGET)
    assert machine.governor.quality.scale == 1.0
    assert machine.governor.quality.flow == "fast"


def test_governor_answers_a_heavy_load_within_a_second():
    machine = Machine()
    assert machine.run(1.0, 3 * BUDGET).scale <= 0.5


def test_governor_ends_at_the_last_rung_under_a_load_beyond_all_means():
    machine = Machine()
    assert machine.run(20, 100 * BUDGET) == LADDER[-1]


def test_governor_brings_quality_back_when_the_load_is_gone():
    machine = Machine()
    machine.run(10, 4 * BUDGET)
    assert machine.run(60, 0.3 * BUDGET) == LADDER[0]
    climbed = machine.seen[machine.seen.index(min(machine.seen, key=LADDER.index)) :]
    rungs = [LADDER.index(quality) for quality in climbed]
    way_back = rungs[rungs.index(max(rungs)) :]
    assert way_back == sorted(way_back, reverse=True)
    assert all(before - after == 1 for before, after in pairwise(way_back))


def test_governor_does_not_swing_under_a_steady_load():
    """Where a better quality does not fit, the tries grow rare."""
    machine = Machine()
    machine.run(600, 1.5 * BUDGET, costs=0.8)
    assert len(machine.seen) < 40
    late = Machine()
    late.governor = machine.governor
    late.now, late.seen = machine.now, [machine.governor.quality]
    late.run(100, 1.5 * BUDGET, costs=0.8)
    assert len(late.seen) <= 5


def test_governor_changes_nothing_for_one_slow_frame():
    machine = Machine()
    machine.run(5, 0.6 * BUDGET)
    machine.governor.note(1.0, machine.now)
    machine.run(5, 0.6 * BUDGET)
    assert machine.seen == [LADDER[0]]


@pytest.mark.parametrize("quality", LADDER, ids=lambda quality: quality.name)
def test_quality_turns_into_settings_and_a_size(quality):
    wanted = Params().updated({"stream": {"refresh": 100, "segments": 77, "scale": 0.6}})
    params = quality.applied(wanted)
    assert params.stream.refresh == 100 * quality.refresh
    assert params.stream.flow == (quality.flow or wanted.stream.flow)
    assert params.stream.segments == 77
    assert params.stream.scale == 0.6 * quality.scale


def test_quality_keeps_a_share_that_is_small_already_within_its_range():
    wanted = Params().updated({"stream": {"scale": LEAST_SCALE}})
    assert LADDER[-1].applied(wanted).stream.scale == LEAST_SCALE


def test_ladder_leaves_out_rungs_that_would_change_nothing():
    assert ladder_for(Params()) == LADDER
    fast = Params().updated({"stream": {"flow": "fast", "scale": 0.5}})
    ladder = ladder_for(fast)
    assert [quality for quality in LADDER if quality not in ladder] == [LADDER[3]]
    settings = [quality.applied(fast) for quality in ladder]
    assert all(before != after for before, after in pairwise(settings))
    governor = Governor(BUDGET, ladder)
    for frame in range(200):
        governor.note(10 * BUDGET, frame * BUDGET)
    assert governor.quality == LADDER[-1]
