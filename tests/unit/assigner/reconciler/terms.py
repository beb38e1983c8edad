"""Meshes of members and assigners on virtual time, and what is checked of them."""

from collections.abc import Coroutine, Sequence
from typing import Any

from braid.kernel.ids import LeaseId
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.groups import check_epochs, check_single_holder
from tests.unit.assigner.mesh import Mesh, Participant, Told


def run(work: Coroutine[Any, Any, None]) -> None:
    """Runs a test on virtual time."""
    run_virtual(work)


async def check(mesh: Mesh) -> None:
    """Invariants of the whole history, and nothing died."""
    events = await mesh.events()
    check_epochs(events)
    check_single_holder(events)
    assert mesh.failures == []


def holdings(members: Sequence[Participant]) -> dict[LeaseId, tuple[str, int]]:
    """The holder and the epoch of each lease, as members know them."""
    return {lease: (member.client_id, held.epoch) for member in members for lease, held in member.holds.items()}


def check_never_two(changes: Sequence[Told]) -> None:
    """I5, as far as leases go: no two members hold one lease at the same time, by one clock."""
    holders: dict[LeaseId, str] = {}
    for at, who, what, lease, _ in changes:
        if what == "granted":
            assert holders.get(lease, who) == who, f"{lease} is {holders[lease]}'s when {who} gets it at {at}"
            holders[lease] = who
        elif holders.get(lease) == who:
            del holders[lease]
