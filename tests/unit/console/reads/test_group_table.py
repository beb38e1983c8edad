"""Windows of the table of all groups: order, filter, states, and what is counted."""

import pytest

from braid.api.assigner.v1 import group_pb2, rules_pb2
from braid.api.lagmon.v1 import lag_pb2
from braid.kernel.errors import Invalid
from console.server.limits import WINDOW_ROWS
from console.server.reads.group_table import GroupFacts, GroupTable, LaneLag, group_facts, lane_lag


def group(
    name: str, *, members: int = 1, free: int = 0, stopped: tuple[str, ...] = (), frozen: bool = False
) -> GroupFacts:
    """A group's facts."""
    status = group_pb2.GroupStatus(members=members, leases=4, free_leases=free, stopped_lanes=stopped)
    rules = rules_pb2.GroupRules(freeze=rules_pb2.GroupFreeze(reason="a test") if frozen else None)
    return group_facts(group_pb2.Group(name=name, status=status, rules=rules), None)


def lag(
    name: str, seconds: float, records: int = 0, *, stream: str = "logs", lane: str = "live", stale: bool = False
) -> LaneLag:
    """A group's lag on a lane."""
    told = lag_pb2.Lag(group=name, stream=stream, lane=lane, lag_seconds=seconds, lag_records=records, stale=stale)
    return lane_lag(told)


def table(groups: dict[str, GroupFacts], *lags: LaneLag) -> GroupTable:
    """A table with these."""
    made = GroupTable()
    made.put_groups(groups, more=False)
    made.put_lags(lags, more=False)
    return made


def test_the_group_most_behind_is_first_equal_ones_go_by_name() -> None:
    names = ("d", "b", "a", "c")
    found = table({name: group(name) for name in names}, lag("a", 1.0), lag("b", 9.0), lag("c", 1.0)).window("", "", 0)
    assert list(found.names) == ["b", "a", "c", "d"]
    assert (found.first, found.matched, found.total) == (0, 4, 4)


def test_a_column_sorts_both_ways_and_an_unknown_one_is_refused() -> None:
    made = table({"a": group("a", members=2), "b": group("b", members=7)}, lag("a", 0.0, 5), lag("b", 0.0, 3))
    assert list(made.window("members", "", 0).names) == ["a", "b"]
    assert list(made.window("-members", "", 0).names) == ["b", "a"]
    assert list(made.window("-records", "", 0).names) == ["a", "b"]
    with pytest.raises(Invalid) as refused:
        made.window("colour", "", 0)
    assert refused.value.field == "sort"
    assert "members" in refused.value.remedy


def test_a_window_is_a_part_of_the_order() -> None:
    names = [f"g{number:04d}" for number in range(WINDOW_ROWS + 300)]
    found = table({name: group(name) for name in names}).window("group", "", 200)
    assert list(found.names) == names[200 : 200 + WINDOW_ROWS]
    assert (found.first, found.matched, found.total) == (200, len(names), len(names))
    assert not table({}).window("group", "", 200).names


def test_every_word_of_a_filter_is_found_whatever_its_case() -> None:
    groups = {"indexer": group("indexer"), "mailer": group("mailer", members=0), "other": group("other")}
    made = table(groups, lag("indexer", 3.0), lag("mailer", 2.0, stream="mails"))
    assert list(made.window("", "INDEX", 0).names) == ["indexer"]
    assert list(made.window("", "er unattended", 0).names) == ["mailer"]
    assert list(made.window("", "mails/live", 0).names) == ["mailer"]
    found = made.window("", "indexer mailer", 0)
    assert (list(found.names), found.matched, found.total) == ([], 0, 3)


@pytest.mark.parametrize(
    ("facts", "lanes", "state"),
    [
        (group("g"), [lag("g", 1.0)], "live"),
        (group("g", frozen=True), [], "frozen"),
        (group("g", free=1, frozen=True), [], "waiting"),
        (group("g", free=1), [lag("g", 1.0, stale=True)], "stale"),
        (group("g"), [lag("g", 1.0, stale=True), lag("g", 2.0, lane="bulk")], "live"),
        (group("g", members=0), [lag("g", 1.0, stale=True)], "unattended"),
        (group("g", members=0, stopped=("live",)), [], "blocked"),
    ],
)
def test_a_group_has_the_state_that_its_page_shows(facts: GroupFacts, lanes: list[LaneLag], state: str) -> None:
    found = table({"g": facts}, *lanes)
    assert list(found.window("", state, 0).names) == ["g"]
    others = {"live", "frozen", "waiting", "stale", "unattended", "blocked", "foreign"} - {state}
    assert not [each for each in others if found.window("state", each, 0).names and each not in "logs/live"]


def test_a_group_that_lagmon_alone_knows_is_shown() -> None:
    found = table({"known": group("known")}, lag("known", 1.0), lag("strange", 5.0))
    assert list(found.window("", "", 0).names) == ["strange", "known"]
    assert list(found.window("", "foreign", 0).names) == ["strange"]


def test_what_changed_is_sorted_anew() -> None:
    made = table({"a": group("a"), "b": group("b")}, lag("a", 1.0), lag("b", 2.0))
    assert list(made.window("", "", 0).names) == ["b", "a"]
    made.put_lags([lag("a", 3.0), lag("b", 2.0)], more=False)
    assert list(made.window("", "", 0).names) == ["a", "b"]
    made.put_groups({"a": group("a")}, more=False)
    assert list(made.window("", "foreign", 0).names) == ["b"]


def test_a_stream_has_its_worst_lag_and_each_reader_once() -> None:
    lanes = [lag("a", 1.0), lag("a", 4.0, lane="bulk"), lag("b", 2.0), lag("c", 9.0, stream="other")]
    found = table({}, *lanes).worst_by_stream()
    assert {stream: (each.group, each.lane, groups) for stream, (each, groups) in found.items()} == {
        "logs": ("a", "bulk", 2),
        "other": ("c", "live", 1),
    }


def test_a_group_that_did_not_change_is_not_read_again() -> None:
    message = group_pb2.Group(name="g", status=group_pb2.GroupStatus(members=3))
    first = group_facts(message, None)
    assert group_facts(message, first) is first
    message.status.members = 4
    assert group_facts(message, first).members == 4
