"""Leases that share pages, and members, in columns: they say what plain mappings say, at every version of a history."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from services.assigner.model.commands import (
    JoinMember,
    RemoveMember,
)
from services.assigner.model.events import GoneReason
from services.assigner.model.group import Group, Lease, LeaseState, Member
from services.assigner.model.leases.columns import PAGE, LeaseColumns, Page
from services.assigner.model.leases.lease import split
from services.assigner.model.leases.table import Leases
from services.assigner.model.members import MemberColumns, Members, gathered
from services.assigner.policy.lease_names import names_of
from tests.support.examples import examples
from tests.unit.assigner.groups import SPEC, hello, joined, member, seen
from tests.unit.assigner.scenarios.test_group_machine import GroupMachine

NAMES = st.builds(
    "{}/{}".format, st.sampled_from(["logs/live/1", "logs/bulk/1"]), st.sampled_from([0, 1, 2, PAGE, 300])
)
LEASES = st.builds(
    Lease,
    st.sampled_from(LeaseState),
    st.sampled_from(["", member(1), member(2), member(3)]),
    st.integers(1, 9),
    st.just(0),
    home=st.sampled_from(["", "web-1", "web-2"]),
    home_since_ms=st.integers(0, 9),
)
CHANGES = st.lists(st.dictionaries(NAMES, st.none() | LEASES, max_size=6), max_size=8)


def told(columns: LeaseColumns, sizes: Mapping[str, int]) -> list[object]:
    """The contents of columns, with names instead of numbers."""
    blocks = sorted(sizes.items())
    members, clients = [*columns.members.names, ""], [*columns.clients.names, ""]
    at, homes = columns.homes(blocks, 4)
    return [
        columns.states(blocks).tolist(),
        [members[number] for number in columns.holders(blocks).tolist()],
        list(zip(at.tolist(), [clients[number] for number in homes.tolist()], strict=True)),
        columns.held_in_all,
        columns.of(member(1)),
        columns.orphans([member(2)]),
        [columns.held(name, 1) for name, _ in blocks],
        columns.counts(columns.numbers([member(1), member(2), "nobody"])).tolist(),
    ]


def check_columns(state: Group) -> None:
    """The columns that followed the history are those made anew from the leases; so are the members'."""
    sizes = {name: channel.partitions for name, channel in state.channels.items()}
    sizes |= {split(name)[0]: 300 for name in state.leases}
    assert told(state.lease_columns, sizes) == told(Leases(dict(state.leases)).columns, sizes)
    check_members(state.member_columns, state.members)


def check_members(columns: MemberColumns, members: Mapping[str, Member]) -> None:
    """The columns say what the members are."""
    anew = gathered(dict(members))
    assert (columns.ids, columns.clients) == (anew.ids, anew.clients)
    assert columns.capacities.tolist() == anew.capacities.tolist()
    assert columns.joined_at_ms.tolist() == anew.joined_at_ms.tolist()
    assert columns.of == members


class ColumnsMachine(GroupMachine):
    """Any history of a group."""

    @invariant()
    def columns_are_as_made_anew(self) -> None:
        check_columns(self.history.state)


ColumnsMachine.TestCase.settings = settings(max_examples=examples(20), stateful_step_count=30)
TestColumns = ColumnsMachine.TestCase


@given(CHANGES, st.data())
def test_every_version_stays_what_it_was(changes: list[dict[str, Lease | None]], data: st.DataObject) -> None:
    versions: list[tuple[Leases, dict[str, Lease]]] = [(Leases(), {})]
    for change in changes:
        leases, plain = data.draw(st.sampled_from(versions))
        after = {name: lease for name, lease in {**plain, **change}.items() if lease is not None}
        versions.append((leases.changed(change), after))
    for leases, plain in data.draw(st.permutations(versions)):
        assert (dict(leases.items()), len(leases)) == (plain, len(plain))
        assert leases == plain and list(leases) == [name for name, _ in leases.items()]
        assert list(leases.values()) == [leases[name] for name in leases]
        sizes = {"logs/live/1": 301, "logs/bulk/1": 2}
        assert told(leases.columns, sizes) == told(Leases(plain).columns, sizes)
        assert leases.held_by(member(1)) == {
            n: lease for n, lease in sorted(plain.items()) if lease.holder == member(1)
        }


@pytest.mark.parametrize("name", ["", "logs", "logs/live/1/01", "logs/live/1/-1", "logs/live/1/+1", "logs/live/1/²"])
def test_what_is_no_name_is_no_lease(name: str) -> None:
    leases = joined(1).state.leases
    assert name not in leases and leases.get(name) is None
    with pytest.raises(ValueError, match="is no lease"):
        Leases({name: Lease(LeaseState.FREE, "", 1, 0)})


def test_names_are_found_where_they_stand() -> None:
    names = names_of((("logs/live/1", 3), ("logs/bulk/1", 2)))
    assert list(names) == [f"logs/live/1/{n}" for n in range(3)] + [f"logs/bulk/1/{n}" for n in range(2)]
    assert [names.find(name) for name in names] == list(range(5))
    assert {names.find(name) for name in ("logs/live/1/3", "logs/dlq/1/0", "logs/live/1/x", "")} == {-1}
    some = names.at(np.array([0, 2, 4]))
    assert [some.find(name) for name in names] == [0, -1, 1, -1, 2]


def test_members_come_and_go_in_their_columns() -> None:
    history = joined(3, seen(partitions=9))
    assert history.state.member_columns.clients["web-2"] == (member(2),)
    history.do(JoinMember(hello(member(4), client_id="web-2", capacity=0.5), SPEC))
    history.do(JoinMember(hello(member(3), client_id="web-9"), SPEC), RemoveMember(member(1), GoneReason.LEFT))
    check_columns(history.state)
    columns = history.state.member_columns
    assert columns.ids == [member(2), member(3), member(4)]
    assert columns.clients == {"web-2": (member(2), member(4)), "web-9": (member(3),)}
    assert columns.positions([member(4), member(2)]).tolist() == [2, 0]


def test_names_of_who_is_long_gone_are_forgotten() -> None:
    leases = Leases()
    for number in range(1_000):
        leases = leases.changed({"logs/live/1/0": Lease(LeaseState.HELD, member(number), number + 1, 0)})
        assert list(leases.columns.of(member(number))) == [("logs/live/1/0", leases["logs/live/1/0"])]
    assert len(leases.columns.members.names) <= 3 * PAGE + 1


# --- mutants


def late(columns: LeaseColumns, at: int, old: Page, new: Page) -> None:
    """A mutant that passes over what is free again."""
    kept = tuple(before if now is None or not now.holder else now for before, now in zip(old, new, strict=True))
    _WRITE(columns, at, old, kept)


_WRITE: Callable[[LeaseColumns, int, Page, Page], None] = LeaseColumns._write


def test_columns_that_miss_a_change_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    history = joined(2, seen(partitions=4))
    check_columns(history.state)
    monkeypatch.setattr(LeaseColumns, "_write", late)
    history.do(RemoveMember(member(2), GoneReason.LEFT))
    with pytest.raises(AssertionError):
        check_columns(history.state)


def test_members_that_miss_one_who_went_are_noticed() -> None:
    state = joined(2).state
    members = Members(state.members)
    stale = replace(gathered(state.members), of=members)
    check_members(stale, members)
    with pytest.raises(AssertionError):
        check_members(stale, members.without(member(1)))


def test_changing_one_of_many_members_shares_all_other_buckets() -> None:
    """A thousand members that leave at once do not cost a thousand copies of ten thousand."""
    state = joined(300).state
    before = Members(state.members)
    changed = before.without(member(7))
    assert sum(old is not new for old, new in zip(before._buckets, changed._buckets, strict=True)) == 1
    assert max(map(len, before._buckets)) < 30
    assert list(changed) == sorted(set(before) - {member(7)})
    assert changed == {id: each for id, each in before.items() if id != member(7)}
    assert changed != before
    assert changed.with_member(before[member(7)]) == before


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(st.integers(1, 12), st.booleans(), st.booleans()), max_size=600))
def test_changed_members_have_the_columns_of_members_made_anew(steps: list[tuple[int, bool, bool]]) -> None:
    known = Members(joined(12).state.members)
    members, told = known, dict(known)
    for number, stays, looked in steps:
        id = member(number)
        if stays:
            told[id] = replace(known[id], joined_at_ms=len(told))
            members = members.with_member(told[id])
        elif id in told:
            del told[id]
            members = members.without(id)
        if looked:
            check_members(members.columns, members)
    assert members == told
    assert len(members) == len(told)
    check_members(members.columns, members)
