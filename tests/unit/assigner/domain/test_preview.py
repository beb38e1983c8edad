"""Previews of a changed group: from the rules, and over the wire. A preview moves nothing."""

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.kernel.errors import BraidError, Invalid, NotFound
from services.assigner.domain.preview import Change, Preview, preview
from services.assigner.model.commands import (
    Loads,
    RemoveMember,
)
from services.assigner.model.events import GoneReason
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.groups import History, joined, member, seen
from tests.unit.assigner.mesh import Mesh, Participant
from tests.unit.assigner.policy.test_by_load import finished

LATER_MS = 10**9
IDLE = Loads()


def asked(history: History, change: Change, loads: Loads = IDLE) -> Preview:
    """Asks; and asks a second time, for nothing has changed by asking."""
    before = history.state
    told = finished(preview(history.state, loads, change, LATER_MS))
    assert finished(preview(history.state, loads, change, LATER_MS)) == told
    assert history.state is before
    return told


def test_a_leavers_leases_go_to_others_and_nothing_else_moves() -> None:
    history = joined(3, seen(partitions=9))
    told = asked(history, Change(leaving=["web-3"]))
    assert {move.lease for move in told.moves} == history.state.held_by(member(3)).keys()
    assert {move.source for move in told.moves} == {member(3)}
    assert [(each.member, each.leases) for each in told.members] == [(member(1), (3, 5)), (member(2), (3, 4))]


def test_a_preview_comes_true() -> None:
    history = joined(3, seen(partitions=9))
    told = asked(history, Change(leaving=[member(3)]))
    expected = {move.lease: move.target for move in told.moves}
    history.do(RemoveMember(member(3), GoneReason.LEFT))
    history.settle()
    assert {lease: history.holders()[lease] for lease in expected} == expected


def test_a_dead_cluster_keeps_nobody_busy() -> None:
    channels = (seen("logs/live/1", partitions=4, cluster="east"), seen("logs/live/2", partitions=4, cluster="west"))
    history = joined(2, *channels)
    first = sorted(name for name in history.state.held_by(member(1)) if name.startswith("logs/live/1/"))
    costs = dict.fromkeys(history.state.leases, 0.2) | dict.fromkeys(first, 0.01)
    loads = Loads(costs)
    told = asked(history, Change(lost=["east"]), loads)
    assert told.members[0].relative[1] == pytest.approx(1.0, abs=0.2)


def test_twice_the_capacity_bears_twice_as_much() -> None:
    history = joined(2, seen(partitions=9))
    told = asked(history, Change(capacities={"web-2": 4.0}))  # the other declared 2
    assert [each.leases[1] for each in told.members] == [3, 6]
    assert all(move.source == member(1) and move.target == member(2) for move in told.moves)


def test_without_anybody_all_is_free() -> None:
    told = asked(joined(1, seen(partitions=2)), Change(leaving=["web-1"]))
    assert [(move.source, move.target) for move in told.moves] == [(member(1), "")] * 2
    assert told.members == []


@pytest.mark.parametrize(
    ("change", "error", "field"),
    [
        (Change(leaving=["nobody"]), NotFound, "leaving_members"),
        (Change(lost=["north"]), NotFound, "lost_clusters"),
        (Change(capacities={"web-1": 0.0}), Invalid, "capacities.web-1"),
        (Change(capacities={"web-1": float("nan")}), Invalid, "capacities.web-1"),
        (Change(capacities={"web-9": 1.0}), NotFound, "capacities"),
    ],
)
def test_what_does_not_exist_is_named(change: Change, error: type[BraidError], field: str) -> None:
    with pytest.raises(error) as raised:
        asked(joined(2, seen(partitions=2)), change)
    assert raised.value.field == field


def test_over_the_wire() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        for name in ("web-1", "web-2"):
            Participant(mesh, name)
        await mesh.settled(2)
        request = api.PreviewPlacementRequest(group="indexer", leaving_members=["web-2"])
        client = mesh.client("cli")
        told = await client.unary("PreviewPlacement", request, api.PreviewPlacementResponse, timeout_seconds=5)
        assert {each.client_id for each in told.members} == {"web-1"}
        assert len(told.moves) == told.members[0].leases_then - told.members[0].leases_now > 0
        assert not told.measured
        with pytest.raises(NotFound):
            request = api.PreviewPlacementRequest(group="nobody")
            await client.unary("PreviewPlacement", request, api.PreviewPlacementResponse, timeout_seconds=5)

    run_virtual(scenario())
