"""Lanes that members stopped with: told twice, told late, told by ghosts, forgotten with the member."""

import pytest

from braid.kernel.errors import NotFound
from braid.kernel.limits.assigner.leases import HELLO_TEXT_MAX
from services.assigner.codec import snapshots
from services.assigner.model import stopped_lanes
from services.assigner.model.commands import RemoveMember
from services.assigner.model.events import GoneReason
from services.assigner.model.stopped_lanes import LaneResumeAsked, LaneResumed, LaneStopped, ReportStops, ResumeLane
from tests.unit.assigner.groups import joined, member

FIRST, SECOND = member(1), member(2)


def report(who: str, **lanes: str) -> ReportStops:
    """A member's report about stopped lanes."""
    return ReportStops(who, tuple(sorted(lanes.items())))


def test_a_report_says_all_so_that_twice_and_late_are_alike() -> None:
    history = joined(2)
    assert history.do(report(FIRST, live="too many")) == [LaneStopped(FIRST, "live", "too many")]
    assert history.do(report(FIRST, live="too many")) == []
    assert history.do(report(SECOND)) == []
    assert history.do(report(FIRST, live="others")) == [LaneStopped(FIRST, "live", "others")]
    assert history.do(report(FIRST)) == [LaneResumed(FIRST, "live")]
    assert history.do(report(FIRST)) == []


def test_ghosts_and_unheld_lanes_are_ignored_and_reasons_bounded() -> None:
    history = joined(1)
    assert history.do(report(member(9), live="too many")) == []
    assert history.do(report(FIRST, elsewhere="too many")) == []
    (event,) = history.do(report(FIRST, live="x" * 10_000))
    assert isinstance(event, LaneStopped) and len(event.reason) == HELLO_TEXT_MAX


def test_a_resume_wish_is_repeated_until_members_answer() -> None:
    history = joined(2)
    history.do(report(FIRST, live="too many"))
    history.do(report(SECOND, live="too many"))
    assert history.do(ResumeLane("live", FIRST)) == [LaneResumeAsked(FIRST, "live")]
    assert stopped_lanes.asked(history.state, FIRST, {"live": "too many"}) == ["live"]
    assert (
        stopped_lanes.asked(history.state, FIRST, {})
        == stopped_lanes.asked(history.state, SECOND, {"live": "too many"})
        == []
    )
    assert history.do(ResumeLane("live")) == [LaneResumeAsked(FIRST, "live"), LaneResumeAsked(SECOND, "live")]
    history.do(report(FIRST))
    history.do(report(FIRST, live="again"))
    assert stopped_lanes.asked(history.state, FIRST, {"live": "again"}) == [], "a stop after the wish is another one"
    for wrong in (ResumeLane("bulk"), ResumeLane("live", member(9))):
        with pytest.raises(NotFound):
            history.do(wrong)


def test_stops_survive_snapshots_and_end_with_their_member() -> None:
    history = joined(2)
    history.do(report(FIRST, live="too many"))
    history.do(report(SECOND, live="too many"))
    assert snapshots.decode(snapshots.encode(history.state)) == history.state
    history.do(RemoveMember(FIRST, GoneReason.DISCONNECTED))
    assert [stop.member for stop in history.state.stops.values()] == [SECOND]
