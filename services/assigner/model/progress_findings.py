"""Committed progress that holders found doubtful or gone, as they report it. Pure.

A holder reports what it found when its work on a lease began, and again with each hello while it holds the lease under
that epoch. So a repeated or late report is the same. The next holder looks anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from braid.kernel.limits.assigner.leases import HELLO_TEXT_MAX
from braid.kernel.limits.client import RESTORE_FINDINGS_MAX
from services.assigner.model.group import Doubt, Group


@dataclass(frozen=True, slots=True)
class ProgressDoubted:
    """Offsets of a lease from `start` up to `end` that are not as committed; `kind` says how, `reason` for people."""

    lease: str
    epoch: int
    kind: str
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReportDoubts:
    """A member's findings from the start of its work on leases."""

    member: str
    found: tuple[ProgressDoubted, ...]


def decide(state: Group, command: ReportDoubts) -> Sequence[ProgressDoubted]:
    """Returns events for findings that are new, about leases the member holds under that epoch."""
    held = state.held_by(command.member)
    news: list[ProgressDoubted] = []
    for each in command.found[:RESTORE_FINDINGS_MAX]:
        lease, known = held.get(each.lease), state.doubts.get(_key(each))
        if lease is None or lease.epoch != each.epoch:
            continue
        if known is None or (known.epoch, known.start, known.end) != (each.epoch, each.start, each.end):
            news.append(replace(each, kind=each.kind[:HELLO_TEXT_MAX], reason=each.reason[:HELLO_TEXT_MAX]))
    return news


def evolve(state: Group, event: ProgressDoubted) -> Group:
    """Keeps the newest finding of each lease and kind."""
    doubt = Doubt(event.lease, event.epoch, event.kind, event.start, event.end, event.reason)
    return replace(state, doubts={**state.doubts, _key(event): doubt})


def current(state: Group) -> Sequence[Doubt]:
    """Returns the findings under the present epochs of leases."""
    found = (doubt for _, doubt in sorted(state.doubts.items()))
    return [doubt for doubt in found if _epoch(state, doubt.lease) == doubt.epoch]


def _epoch(state: Group, lease: str) -> int:
    held = state.leases.get(lease)
    return held.epoch if held is not None else 0


def _key(event: ProgressDoubted) -> str:
    return f"{event.lease}/{event.kind[:HELLO_TEXT_MAX]}"
