"""Mutants of approvals: see `mutants`."""

from collections.abc import Collection, Sequence
from typing import Final

from braid.kernel.access.approvals import Approval, GuardedRequest
from braid.runtime.access import approval_history
from braid.runtime.access.approval_history import ApprovalDecided, ApprovalsState, Decide, Event
from services.assigner.servicer import service
from tests.simulation.mutants import Mutant


def _approves_anything(state: ApprovalsState, command: Decide, actor: str) -> Sequence[Event]:
    known = state.find(command.id)
    return [] if known.decided_by else [ApprovalDecided(command.id, command.refused, "", command.led_ms)]


def _whatever_waits(
    self: ApprovalsState, request: GuardedRequest, lost: Collection[str], led_ms: int
) -> Approval | None:
    return self.waiting(request, led_ms)


def _of_the_same_name(self: GuardedRequest, other: GuardedRequest) -> bool:
    return self.digest == other.digest


async def _asks_nobody(*_: object) -> None:
    """No approval is asked for."""


APPROVAL_MUTANTS: Final = (
    Mutant(
        "its author approves a request",
        "I19 approvals",
        [(approval_history, "_decided", _approves_anything)],
        ("kill-service",),
        {"approvals": True, "fault_seconds": 10.0},
    ),
    Mutant(
        "an approval is used twice",
        "I19 approvals",
        [
            (Approval, "used", property(lambda self: False)),
            (GuardedRequest, "same_as", _of_the_same_name),  # else groups that are made again are told apart
        ],
        ("kill-service",),
        {"approvals": True, "fault_seconds": 20.0},
    ),
    Mutant(
        "an approval is used before it is given",
        "I19 approvals",
        [(ApprovalsState, "usable", _whatever_waits)],
        ("kill-service",),
        {"approvals": True, "fault_seconds": 10.0},
    ),
    Mutant(
        "a service asks for no approval",
        "I19 approvals",
        [(service, "require_approval", _asks_nobody)],
        ("kill-service",),
        {"approvals": True, "fault_seconds": 10.0},
    ),
)
