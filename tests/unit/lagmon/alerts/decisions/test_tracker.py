"""The clocks of conditions: nothing flaps, nothing is told twice, and ignorance decides nothing."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from braid.kernel.limits.lagmon.alerts import ALERT_QUIET_SECONDS
from services.lagmon.alerts.decisions.model import RULES, AlertKey, Condition
from services.lagmon.alerts.decisions.tracker import GONE, OVER, Tracker
from tests.support.examples import examples

KEY = AlertKey("group-unattended", "logs", "", "live", "indexer")
DOWN = AlertKey("cluster-down", "", "east")


class Played:
    """A tracker with the history that its changes lead to."""

    def __init__(self, tracker: Tracker | None = None, fired: Sequence[AlertKey] = ()) -> None:
        self.tracker = tracker or Tracker()
        self.open = list(fired)
        self.told: list[str] = []

    def step(self, holds: bool | None, seconds: float = 1.0, key: AlertKey = KEY, *, complete: bool = True) -> None:
        """One look that finds one condition."""
        self.look({key: Condition(key, holds, "why")}, seconds, complete=complete)

    def look(self, conditions: dict[AlertKey, Condition], seconds: float = 1.0, *, complete: bool = True) -> None:
        """One look."""
        self.tracker.step(conditions, seconds, self.open, complete)
        changes = self.tracker.changes(self.open)
        for each in changes.firing:
            self.open.append(each.key)
            self.told.append("fired")
        for name, reason in changes.resolved:
            self.open = [key for key in self.open if key.name != name]
            self.told.append(reason)


def test_a_condition_is_pending_for_its_time_then_fires_once() -> None:
    played = Played()
    for _ in range(10):
        played.step(True)
        assert [each.key for each in played.tracker.pending(played.open)] == [KEY]
    played.step(True)
    assert (played.told, played.tracker.pending(played.open)) == (["fired"], [])
    for _ in range(100):
        played.step(True)
    assert played.told == ["fired"]


def test_a_condition_that_breaks_off_begins_anew() -> None:
    played = Played()
    for _ in range(30):
        for holds in (*[True] * 9, False):
            played.step(holds)
    assert played.told == []


def test_an_alert_is_resolved_after_quiet_seconds_and_not_before() -> None:
    played = Played(fired=[KEY])
    for _ in range(int(ALERT_QUIET_SECONDS) - 1):
        played.step(False)
    assert played.told == []
    played.step(True)
    for _ in range(int(ALERT_QUIET_SECONDS)):
        played.step(False)
    assert played.told == [OVER]


@pytest.mark.parametrize("complete", [True, False])
def test_what_cannot_be_told_moves_no_clock(complete: bool) -> None:
    played = Played(fired=[KEY])
    for _ in range(1000):
        played.step(None, complete=complete)
    assert played.told == []
    fresh = Played()
    for _ in range(1000):
        fresh.step(None)
    assert fresh.told == []


def test_a_gone_subject_is_resolved_once_all_was_heard() -> None:
    played = Played(fired=[KEY])
    for _ in range(100):
        played.look({}, complete=False)
    assert played.told == []
    for _ in range(int(ALERT_QUIET_SECONDS)):
        played.look({}, complete=True)
    assert played.told == [GONE]


def test_a_new_leader_takes_over_and_fires_nothing_again() -> None:
    first = Played()
    first.step(True, key=DOWN)
    assert first.told == ["fired"]
    second = Played(fired=first.open)
    second.step(True, key=DOWN)
    assert second.told == []
    for _ in range(int(ALERT_QUIET_SECONDS)):
        second.step(False, key=DOWN)
    assert second.told == [OVER]


def test_changes_that_were_not_recorded_are_found_again() -> None:
    tracker = Tracker()
    condition = {DOWN: Condition(DOWN, True, "why")}
    tracker.step(condition, 1.0, [], True)
    assert tracker.changes([]) == tracker.changes([])
    assert len(tracker.changes([]).firing) == 1
    assert tracker.changes([DOWN]).firing == []


@settings(max_examples=examples(60))
@given(st.sampled_from(sorted(RULES)), st.sampled_from([True, False, None]), st.booleans())
def test_nothing_flaps_on_constant_input(rule: str, holds: bool | None, fired: bool) -> None:
    key = KEY._replace(rule=rule)
    played = Played(fired=[key] if fired else [])
    for _ in range(700):
        played.step(holds, key=key)
    wanted = (
        {(True, False): ["fired"], (False, True): [OVER]}.get((bool(holds), fired), []) if holds is not None else []
    )
    assert played.told == wanted


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.sampled_from([True, False, None]), st.floats(0.1, 5.0)), max_size=120))
def test_every_firing_is_followed_by_one_resolution(steps: list[tuple[bool | None, float]]) -> None:
    played = Played()
    for holds, seconds in steps:
        played.step(holds, seconds)
    assert all((told == "fired") == (number % 2 == 0) for number, told in enumerate(played.told))
