"""Tickets name a stream for its own connection only, and are never given twice."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.ports import Caller
from services.assigner.liveness.tickets import Origin, Tickets, origin_of

HERE, THERE = Origin("host:1", "default", "web"), Origin("host:2", "default", "web")


def test_a_ticket_counts_where_it_was_given() -> None:
    tickets = Tickets[str](1 << 39)
    mine, yours = tickets.issue(HERE, "mine"), tickets.issue(THERE, "yours")
    assert tickets.of(HERE) == {mine: "mine"}
    assert tickets.of(THERE) == {yours: "yours"}
    tickets.void(THERE, mine)
    assert tickets.of(HERE) == {mine: "mine"}
    tickets.void(HERE, mine)
    tickets.void(HERE, mine)
    assert tickets.of(HERE) == {}


def test_a_reader_of_a_connections_holders_cannot_change_them() -> None:
    tickets = Tickets[str](0)
    mine = tickets.issue(HERE, "mine")
    with pytest.raises(TypeError):
        cast("dict[int, str]", tickets.of(HERE))[mine] = "another's"
    assert tickets.of(HERE) == {mine: "mine"}


def test_connections_with_one_certificate_belong_together() -> None:
    here, there = (Caller("spiffe://a/b", "x", "id", peer, True) for peer in ("host:1", "host:2"))
    assert origin_of(here) == origin_of(there)
    assert origin_of(here) != origin_of(Caller("spiffe://a/b", "x", "id", "host:1"))


def test_a_connection_belongs_to_one_principal_of_one_tenant() -> None:
    callers = [Caller(principal, tenant, "id", "host:1") for principal in ("a", "b") for tenant in ("x", "y")]
    assert len({origin_of(caller) for caller in callers}) == 4
    assert origin_of(Caller("a", "x", "another", "host:1")) == origin_of(callers[0])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=80))
def test_no_ticket_is_issued_twice_and_void_ones_leave_nothing(steps: list[tuple[bool, int]]) -> None:
    tickets, origins = Tickets[int](7), [Origin(f"host:{n}", "", "") for n in range(4)]
    held: list[tuple[Origin, int]] = []
    given_before: set[int] = set()
    for issues, at in steps:
        if issues or not held:
            ticket = tickets.issue(origins[at], at)
            assert ticket not in given_before
            given_before.add(ticket)
            held.append((origins[at], ticket))
        else:
            tickets.void(*held.pop(at % len(held)))
        for origin in origins:
            assert set(tickets.of(origin)) == {ticket for where, ticket in held if where == origin}
    assert set(tickets._held) == {origin for origin, _ in held}


def test_a_proved_principal_keeps_its_tickets_in_any_tenant() -> None:
    origins = {origin_of(Caller("a", tenant, "id", "host:1", authenticated=True)) for tenant in ("x", "y")}
    assert len(origins) == 1
