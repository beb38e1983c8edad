"""Rules of operators that are refused, bounded, or in force already."""

from dataclasses import replace

import pytest

from braid.kernel.errors import BraidError, Exhausted, Invalid, NotFound, Refused
from braid.kernel.limits.assigner.leases import GROUP_RULES_MAX
from services.assigner.model.commands import (
    JoinMember,
)
from services.assigner.model.rules import (
    Ban,
    BanMember,
    DrainMember,
    FreezeGroup,
    Pin,
    PinLease,
    RuleCommand,
    SetCapacity,
    SetSpreading,
    UnpinLease,
    Zones,
)
from tests.unit.assigner.groups import SPEC, hello, joined, member, seen

LEASE = "logs/live/1/0"


# --- what is refused


@pytest.mark.parametrize(
    ("command", "error", "field"),
    [
        (PinLease(LEASE, "web-9"), NotFound, "member"),
        (PinLease("logs/live/1/99", "web-1"), NotFound, "lease"),
        (PinLease("logs/live/7/0", "web-1"), NotFound, "lease"),
        (PinLease("logs", "web-1"), Invalid, None),
        (BanMember(Ban("web-9", "logs")), NotFound, "member"),
        (BanMember(Ban("web-1", "metrics")), NotFound, "path"),
        (BanMember(Ban("web-1", "logs/bulk")), NotFound, "path"),
        (BanMember(Ban("web-1", cluster="north")), NotFound, "cluster"),
        (BanMember(Ban("web-1")), Invalid, "path"),
        (BanMember(Ban("web-1", "logs", "east")), Invalid, "path"),
        (BanMember(Ban("", "logs")), Invalid, "member"),
        (DrainMember("web-9", True), NotFound, "member"),
        (DrainMember("web-1", True, "x" * 256), Invalid, "reason"),
        (FreezeGroup(True, "x" * 256), Invalid, "reason"),
        (SetCapacity("web-9", 1.0), NotFound, "member"),
        (SetCapacity("web-1", -1.0), Invalid, "capacity"),
        (SetCapacity("web-1", float("nan")), Invalid, "capacity"),
    ],
)
def test_what_is_not_there_or_makes_no_sense_is_refused(
    command: RuleCommand, error: type[BraidError], field: str | None
) -> None:
    history = joined(2)
    before = history.state
    with pytest.raises(error) as refused:
        history.do(command)
    assert field is None or refused.value.field == field
    assert history.state == before


def test_a_pin_and_a_ban_do_not_contradict_each_other() -> None:
    history = joined(3)
    history.do(BanMember(Ban("web-1", "logs/live/1")))
    with pytest.raises(Refused, match="web-1 is banned from logs/live/1"):
        history.do(PinLease(LEASE, "web-1"))
    with pytest.raises(Refused, match="banned"):
        history.do(PinLease(LEASE, member(1)))  # the same, by its id
    history.do(PinLease(LEASE, "web-2"))
    with pytest.raises(Refused, match=f"{LEASE} is pinned to web-2"):
        history.do(BanMember(Ban("web-2", cluster="east")))


def test_a_rule_that_leaves_nobody_is_refused_by_name() -> None:
    history = joined(2)
    history.do(DrainMember("web-1", True))
    for command in (
        DrainMember("web-2", True),
        BanMember(Ban("web-2", "logs/live")),
        PinLease(LEASE, "web-1", strict=True),
        PinLease(LEASE, "web-7", strict=True, absent=True),
    ):
        with pytest.raises(Refused, match=LEASE):
            history.do(command)
    history.do(PinLease(LEASE, "web-7", absent=True))  # not strict: it waits, and harms nobody


def test_a_shared_name_is_refused_with_the_ids() -> None:
    history = joined(1)
    history.do(JoinMember(hello(member(2), client_id="web-1"), SPEC))
    with pytest.raises(Invalid, match="2 members are called 'web-1'") as refused:
        history.do(DrainMember("web-1", True))
    assert member(2) in refused.value.remedy
    history.do(DrainMember(member(2), True))


def test_rules_are_bounded() -> None:
    history = joined(2, seen(partitions=GROUP_RULES_MAX + 1))
    crowded = {f"logs/live/1/{n}": Pin("web-1") for n in range(GROUP_RULES_MAX)}
    history.state = replace(history.state, rules=replace(history.state.rules, pins=crowded))
    with pytest.raises(Exhausted):
        history.do(PinLease(f"logs/live/1/{GROUP_RULES_MAX}", "web-1"))
    assert history.do(UnpinLease(LEASE))


def test_what_is_so_already_is_no_event() -> None:
    history = joined(3)
    asked: list[RuleCommand] = [
        PinLease(LEASE, "web-1"),
        BanMember(Ban("web-2", LEASE)),
        FreezeGroup(True),
        DrainMember("web-3", True),
        SetCapacity("web-1", 2.0),
        SetSpreading(Zones.PREFER, True),
    ]
    for command in asked:
        assert len(history.do(command)) == 1
    assert history.do(*asked) == []
    assert history.do(SetSpreading()) == []
