"""What holders could not believe of committed progress, or found gone, by their word. Pure.

A holder tells what it found where its work on a lease began, and tells it again with each hello while it holds the
lease under that epoch; so what is told twice or late is told alike. The next holder looks anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from braid.kernel.limits.client import RESTORE_FINDINGS_MAX
from braid.kernel.limits.leases import HELLO_TEXT_MAX
from services.assigner.model.group import Doubt, Group


@dataclass(frozen=True, slots=True)
class ProgressDoubted:
    """Of a lease, offsets from `start` up to `end` are not as committed; `kind` says how, `reason` for people."""

    lease: str
    epoch: int
    kind: str
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReportDoubts:
    """What a member found where its work on leases began."""

    member: str
    found: tuple[ProgressDoubted, ...]


def decide(state: Group, command: ReportDoubts) -> Sequence[ProgressDoubted]:
    """What is news of leases that the member holds under that epoch."""
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
    """Keeps the newest of a lease and kind."""
    doubt = Doubt(event.lease, event.epoch, event.kind, event.start, event.end, event.reason)
    return replace(state, doubts={**state.doubts, _key(event): doubt})


def current(state: Group) -> Sequence[Doubt]:
    """Those of the epochs that leases have now."""
    found = (doubt for _, doubt in sorted(state.doubts.items()))
    return [doubt for doubt in found if _epoch(state, doubt.lease) == doubt.epoch]


def _epoch(state: Group, lease: str) -> int:
    held = state.leases.get(lease)
    return held.epoch if held is not None else 0


def _key(event: ProgressDoubted) -> str:
    return f"{event.lease}/{event.kind[:HELLO_TEXT_MAX]}"
