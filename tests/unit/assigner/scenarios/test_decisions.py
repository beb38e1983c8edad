"""Whole decisions keep what placement promises: they go by the state as it is, and move no more than they must.

The checkers walk leases one by one, as nothing in a decision does; mutants of columns and placement turn them red.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.limits.assigner.placement import LOAD_FLOOR, LOAD_PART_MIN, PLACEMENT_BAND_HIGH, PLACEMENT_BAND_INNER
from services.assigner.domain.decide import GroupDecider
from services.assigner.model.commands import (
    Balance,
    Loads,
    RemoveMember,
)
from services.assigner.model.events import (
    Event,
    GoneReason,
    RevokesStarted,
)
from services.assigner.model.group import Group, LeaseState
from services.assigner.model.leases.columns import LeaseColumns, Page
from services.assigner.model.leases.lease import channel_of
from services.assigner.policy.arrays import Indices
from services.assigner.policy.balance import Assignor
from services.assigner.policy.by_number import Measured, Movable
from services.assigner.policy.layout import layout
from tests.unit.assigner.groups import History, joined, member, seen

SIZES: Final = st.lists(st.integers(1, 9), min_size=1, max_size=3)
MEMBERS: Final = st.integers(2, 6)
COSTS: Final = st.sampled_from([0.0, 0.02, 0.05, 0.1, 0.4, 1.0])
LATER_MS: Final = 10**9  # nobody is a newcomer any more
EXACT: Final = 1e-9


def group(members: int, sizes: list[int]) -> History:
    """Settled, a channel of each size."""
    history = joined(members, *(seen(f"logs/live/{number}", size) for number, size in enumerate(sizes, 1)))
    history.now_ms = LATER_MS
    return history


def drawn_costs(data: st.DataObject, state: Group) -> dict[str, float]:
    """Random costs of all leases."""
    return {name: data.draw(COSTS) for name in sorted(state.leases)}


def counted(costs: Mapping[str, float]) -> dict[str, float]:
    """The weights of leases in a decision: their costs, the floor at least, and a part of the mean."""
    least = max(LOAD_FLOOR, LOAD_PART_MIN * sum(costs.values()) / max(len(costs), 1))
    return {name: max(cost, least) for name, cost in costs.items()}


def borne(state: Group, costs: Mapping[str, float]) -> dict[str, float]:
    """The load of each member; of capacities alike."""
    loads, weights = dict.fromkeys(state.members, 0.0), counted(costs)
    for name, lease in state.leases.items():
        if lease.holder and lease.state is LeaseState.HELD:
            loads[lease.holder] += weights[name]
    return loads


# --- checkers


def check_layout(state: Group, costs: Mapping[str, float]) -> None:
    """Asserts that the layout of a decision matches the state, lease by lease."""
    members = sorted(state.members)
    placed = layout(state, members, Loads(costs), LATER_MS)
    wanted = sorted(
        f"{name}/{number}" for name, channel in state.channels.items() for number in range(channel.partitions)
    )
    assert sorted(placed.leases) == wanted
    weights = counted({name: costs.get(name, 0.0) for name in wanted})
    for at, name in enumerate(placed.leases):
        lease = state.leases.get(name)
        held = lease is not None and lease.state is LeaseState.HELD
        holder = members[placed.holders[at]] if placed.holders[at] >= 0 else ""
        assert holder == (lease.holder if lease is not None and held else "")
        assert placed.measured.weights[at] == pytest.approx(weights[name])
        assert placed.leases.channels[placed.channels[at]] == channel_of(name)


def check_death(before: Group, after: Group, dead: str, costs: Mapping[str, float]) -> None:
    """Only what the dead held changed hands, and nobody who got something ends a partition above the mean."""
    loads, was = borne(after, costs), borne(before, costs)
    mean = sum(loads.values()) / len(loads)
    heaviest = max(counted(costs).values())
    for name, lease in after.leases.items():
        if before.leases[name].holder != dead:
            assert lease == before.leases[name], f"{name} moved, and was not the dead's"
        assert lease.state is LeaseState.HELD and lease.holder in after.members
    for each, load in loads.items():
        assert load <= max(mean + heaviest, was[each]) + EXACT, (each, load, mean)


def check_evened(before: Group, asked: list[str], costs: Mapping[str, float]) -> None:
    """Load asked back is at most what is above the mean, and one heaviest partition for each member that gives."""
    loads = borne(before, costs)
    mean = sum(loads.values()) / len(loads)
    givers = {before.leases[name].holder for name in asked}
    above = sum(max(0.0, loads[giver] - mean) for giver in givers)
    heaviest = max(counted(costs).values())
    assert len(asked) == len(set(asked))
    assert sum(counted(costs)[name] for name in asked) <= above + len(givers) * heaviest + EXACT
    assert all(loads[giver] > mean for giver in givers), "who is not above the mean gives nothing"


def asked_back(events: list[Event]) -> list[str]:
    """The leases that are to be given back."""
    return [each.lease for event in events if isinstance(event, RevokesStarted) for each in event.leases]


def check_rest(state: Group, costs: Mapping[str, float]) -> None:
    """At rest all are within the band, or so near to the mean that a heaviest partition too much explains it."""
    loads = borne(state, costs)
    mean, heaviest = sum(loads.values()) / len(loads), max(counted(costs).values())
    assert (
        max(loads.values())
        <= max(mean * (1 + PLACEMENT_BAND_HIGH), mean * (1 + PLACEMENT_BAND_INNER) + heaviest) + EXACT
    )


# --- properties


@given(MEMBERS, SIZES, st.data())
def test_a_decision_goes_by_what_the_state_says(members: int, sizes: list[int], data: st.DataObject) -> None:
    history = group(members, sizes)
    for _ in range(data.draw(st.integers(0, 4))):
        gone = data.draw(st.sampled_from(sorted(history.state.members)))
        if data.draw(st.booleans()) and len(history.state.members) > 1:
            history.do(RemoveMember(gone, GoneReason.EXPIRED))
        else:
            history.do(Balance(tuple(history.state.members), Loads(drawn_costs(data, history.state))))
        check_layout(history.state, drawn_costs(data, history.state))


@given(MEMBERS, SIZES, st.data())
def test_a_death_moves_only_the_dead_members_leases_evenly(members: int, sizes: list[int], data: st.DataObject) -> None:
    history = group(members, sizes)
    die(history, drawn_costs(data, history.state), member(data.draw(st.integers(1, members))))


def die(history: History, costs: Mapping[str, float], dead: str) -> None:
    """A member dies in a leader's first seconds: what is free is placed, and nothing else moves yet."""
    before = history.state
    live = tuple(id for id in before.members if id != dead)
    history.do(RemoveMember(dead, GoneReason.EXPIRED), Balance(live, Loads(costs, settled=False)))
    check_death(before, history.state, dead, costs)


@given(MEMBERS, SIZES, st.data())
def test_loads_are_evened_out_by_little_and_then_all_is_still(
    members: int, sizes: list[int], data: st.DataObject
) -> None:
    history = group(members, sizes)
    even_out(history, drawn_costs(data, history.state))


def even_out(history: History, costs: Mapping[str, float]) -> None:
    """Minute by minute, until nothing moves."""
    for _ in range(4 * len(costs)):
        before = history.state
        asked = asked_back(history.do(Balance(tuple(before.members), Loads(costs))))
        check_evened(before, asked, costs)
        if not history.settle_revokes():
            check_rest(history.state, costs)
            return
        history.do(Balance(tuple(before.members), Loads(costs, settled=False)))
    raise AssertionError("it goes on and on")


# --- mutants


UNEVEN: Final = {f"logs/live/1/{number}": (1.0, 0.4, 0.1, 0.1)[number % 4] for number in range(8)}


def blind(
    channels: Indices, holders: Indices, members: int, *, movable: Movable, measured: Measured | None = None
) -> Indices:
    """A mutant that gives whatever is free to one member."""
    return np.where(holders < 0, 0, holders)


def restless(
    channels: Indices, holders: Indices, members: int, *, movable: Movable, measured: Measured | None = None
) -> Indices:
    """A mutant that deals everything out anew."""
    return (holders + 1) % members


def test_the_checkers_pass_what_is_right() -> None:
    die(group(4, [8]), UNEVEN, member(2))
    even_out(group(2, [8]), UNEVEN)


@pytest.mark.parametrize(("mutant", "play"), [(blind, die), (restless, die), (restless, even_out)])
def test_a_placement_that_ignores_loads_or_holders_is_noticed(mutant: Assignor, play: Callable[..., None]) -> None:
    history = group(4, [8])
    history.decider = GroupDecider(mutant)
    with pytest.raises(AssertionError):
        play(history, UNEVEN, *([member(4)] if play is die else []))


def test_columns_that_forget_who_is_gone_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(columns: LeaseColumns, at: int, old: Page, new: Page) -> None:
        """Passes over what is free again."""
        kept = tuple(was if now is None or not now.holder else now for was, now in zip(old, new, strict=True))
        write(columns, at, old, kept)

    write = LeaseColumns._write
    history = group(3, [8])
    check_layout(history.state, UNEVEN)
    monkeypatch.setattr(LeaseColumns, "_write", late)
    history.do(RemoveMember(member(2), GoneReason.LEFT))
    with pytest.raises(AssertionError):
        check_layout(history.state, UNEVEN)
