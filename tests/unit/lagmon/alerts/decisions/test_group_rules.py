"""Groups that go back without a reset, and groups that soon hold no drain: told once, and never out of ignorance."""

from dataclasses import replace

import pytest

from braid.kernel.limits.lagmon.alerts import ALERT_REWIND_RECORDS, ALERT_REWIND_SECONDS
from services.lagmon.alerts.decisions.facts import Facts, GroupFacts, LaneKey
from services.lagmon.alerts.decisions.group_rules import group_conditions
from services.lagmon.alerts.decisions.model import Condition
from services.lagmon.alerts.decisions.rewinds import Rewinds
from services.lagmon.model.lag import LagRow, RowKey, Source

LANE = LaneKey("logs", "live", "indexer")
GROUPS = {"indexer": GroupFacts(("logs",))}


def row(committed: int, partition: int = 0, *, stale: bool = False) -> LagRow:
    """One partition's committed offset."""
    key = RowKey("indexer", "logs", "live", "east", "t", partition)
    return LagRow(key, 1, 0, 0.0, Source.DONE, False, stale, 0, committed_offset=committed)


def told(rewinds: Rewinds, *, fresh: bool = True) -> Condition:
    """Returns the condition about the lane's offsets."""
    facts = Facts({}, {}, groups=GROUPS, groups_fresh=fresh)
    return next(each for each in group_conditions(facts, [LANE], rewinds) if each.key.rule == "group-rewound")


def rewound(*committed: int) -> bool:
    """Whether a partition with such commits, a second apart, counts as rewound at the end."""
    rewinds = Rewinds()
    for at, offset in enumerate(committed):
        rewinds.observe([row(offset)], GROUPS, float(at))
    return told(rewinds).holds is True


@pytest.mark.parametrize(
    ("committed", "holds"),
    [
        ((5_000, 5_000), False),
        ((5_000, 5_000 - ALERT_REWIND_RECORDS + 1), False),
        ((5_000, 5_000 - ALERT_REWIND_RECORDS), True),
        ((5_000, 4_500, 4_000), True),  # by steps
        ((5_000, 0, 1_000, 3_999), True),
        ((5_000, 0, 1_000, 4_001), False),  # nearly where it was
        ((5_000, -1, 5_000), False),  # deleted and committed again
        ((-1, 0, 7), False),
    ],
)
def test_offsets_that_go_back_far_are_told(committed: tuple[int, ...], holds: bool) -> None:
    assert rewound(*committed) == holds


def test_a_rewind_names_its_partitions_and_ends_after_its_time() -> None:
    rewinds = Rewinds()
    rewinds.observe([row(9_000), row(9_000, 1), row(9_000, 2)], GROUPS, 0.0)
    for at in (1.0, ALERT_REWIND_SECONDS):
        rewinds.observe([row(7_000), row(9_500, 1), row(6_000, 2)], GROUPS, at)
        assert "went back by 5,000 records in partitions 0, 2 of lane live" in told(rewinds).summary
    rewinds.observe([row(7_000), row(9_500, 1), row(6_000, 2)], GROUPS, ALERT_REWIND_SECONDS + 1)
    assert told(rewinds).holds is False


def test_a_reset_that_braid_made_is_no_rewind() -> None:
    rewinds, reset = Rewinds(), {"indexer": GroupFacts(("logs",), resets=1)}
    rewinds.observe([row(9_000)], GROUPS, 0.0)
    rewinds.observe([row(0)], GROUPS, 1.0)  # the assigner was asked before
    assert told(rewinds).holds is True  # for less than the rule's time
    rewinds.observe([row(0)], reset, 10.0)
    assert told(rewinds).holds is False
    rewinds.observe([row(0)], reset, 11.0)
    assert told(rewinds).holds is False


def test_stale_offsets_say_nothing_and_are_not_forgotten() -> None:
    rewinds = Rewinds()
    rewinds.observe([row(9_000)], GROUPS, 0.0)
    rewinds.observe([row(0, stale=True)], GROUPS, 1.0)
    assert told(rewinds).holds is False
    rewinds.observe([row(0)], GROUPS, 2.0)
    assert told(rewinds).holds is True


@pytest.mark.parametrize(
    ("group", "holds", "words"),
    [
        (GroupFacts(("a", "b")), False, ""),
        (GroupFacts(("a", "b"), idle_alerted=True, idle_left_seconds=7_200.0), True, "in 2.0 hours drains of a, b"),
        (GroupFacts(("a", "b"), idle_alerted=True, idle_expired=True), True, "do not wait for it any more"),
        (GroupFacts(("a", "b"), idle_expired=True), True, "do not wait for it any more"),
    ],
)
def test_an_idle_group_is_told_also_after_it_stops_counting(group: GroupFacts, holds: bool, words: str) -> None:
    facts = Facts({}, {}, groups={"indexer": group})
    (condition,) = group_conditions(facts, [], Rewinds())
    assert (condition.key.name, condition.holds) == ("stream/a/group-idle/indexer", holds)
    assert words in condition.summary
    (condition,) = group_conditions(replace(facts, groups_fresh=False), [], Rewinds())
    assert condition.holds is None


def test_an_assigner_that_does_not_answer_leaves_rewinds_unknown() -> None:
    rewinds = Rewinds()
    for at, offset in enumerate((9_000, 0)):
        rewinds.observe([row(offset)], GROUPS, float(at))
    assert told(rewinds, fresh=False).holds is None
