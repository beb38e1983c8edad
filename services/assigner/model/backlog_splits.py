"""Split leases, as their holders report them, and operators' requests to split one. Pure.

A request is for the holder of that moment under its epoch: a late one, or one for a lease that moved, changes nothing.
A holder reports all its split leases at each change and with each hello, so a repeated report is the same. The commit
envelope makes a split survive its holder; the next holder reports it anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from braid.kernel.decider import Context
from braid.kernel.errors import Invalid, NotFound
from braid.kernel.ids import LeaseId
from braid.kernel.limits.assigner.leases import HELLO_TEXT_MAX
from services.assigner.model.group import Group, LeaseState, Split


@dataclass(frozen=True, slots=True)
class SplitAsked:
    """An operator wants a lease to be split."""

    lease: str
    epoch: int
    share: float
    relaxed: bool


@dataclass(frozen=True, slots=True)
class LeaseSplit:
    """The holder works at the lease's head, which began at `at`, and on the backlog behind it."""

    lease: str
    epoch: int
    at: int
    share: float


@dataclass(frozen=True, slots=True)
class SplitRefused:
    """The holder did not split the lease, and says why."""

    lease: str
    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class SplitEnded:
    """The lease is worked on at one place again."""

    lease: str


SplitEvent = SplitAsked | LeaseSplit | SplitRefused | SplitEnded


@dataclass(frozen=True, slots=True)
class SplitBacklog:
    """Asks the holders of a stream's leases to split them; all lanes and partitions, or one."""

    stream: str
    share: float
    lane: str = ""
    partition: int | None = None
    relaxed: bool = False


@dataclass(frozen=True, slots=True)
class ToldSplit:
    """A holder's report of one split lease."""

    lease: str
    epoch: int
    at: int
    share: float
    refused: str = ""


@dataclass(frozen=True, slots=True)
class ReportSplits:
    """A member's report of all leases it has split, and perhaps one that it did not split."""

    member: str
    leases: tuple[ToldSplit, ...]


SplitCommand = SplitBacklog | ReportSplits


def decide(state: Group, command: SplitCommand) -> Sequence[SplitEvent]:
    """Returns the events of a request or a report.

    Raises:
        Invalid: a share that is none.
        NotFound: nobody holds such a lease.
    """
    match command:
        case SplitBacklog():
            return _asked(state, command)
        case ReportSplits(member, leases):
            return _reported(state, member, {told.lease: told for told in leases})


def evolve(state: Group, event: SplitEvent, context: Context) -> Group:
    """Applies an event about splits."""
    splits = dict(state.splits)
    known = splits.get(event.lease)
    match event:
        case SplitAsked(lease, epoch, share, relaxed):
            at = known.at if known is not None and known.epoch == epoch else -1
            splits[lease] = Split(lease, epoch, share, context.now_ms, at, asked=True, relaxed=relaxed)
        case LeaseSplit(lease, epoch, at, share):
            splits[lease] = Split(lease, epoch, share, context.now_ms, at)
        case SplitRefused(lease, _, reason):
            if known is not None:
                splits[lease] = replace(known, asked=False, refused=reason, since_ms=context.now_ms)
        case SplitEnded(lease):
            splits.pop(lease, None)
    return replace(state, splits=splits)


def of_member(state: Group, member: str) -> Mapping[str, Split]:
    """Returns, by lease, what is known of the splits of a member's leases."""
    held = state.held_by(member) if state.splits else {}
    return {name: state.splits[name] for name in held if name in state.splits}


def asked(state: Group, member: str) -> Sequence[Split]:
    """Returns requests that a member has not answered, under the epochs that it holds."""
    held = state.held_by(member)
    return [each for name, each in of_member(state, member).items() if each.asked and held[name].epoch == each.epoch]


def _asked(state: Group, command: SplitBacklog) -> Sequence[SplitEvent]:
    if not 0 < command.share < 1:
        raise Invalid(f"{command.share:g} is no share", field="share", remedy="above 0 and below 1, for example 0.2")
    found = [
        SplitAsked(name, lease.epoch, command.share, command.relaxed)
        for name, lease in sorted(state.leases.items())
        if lease.state is LeaseState.HELD and _meant(LeaseId.parse(name), command)
    ]
    if not found:
        raise NotFound(
            f"nobody holds such a lease of group {state.name!r}",
            field="stream",
            remedy="see who holds what: braid get leases",
        )
    return found


def _meant(lease: LeaseId, command: SplitBacklog) -> bool:
    of_lane = lease.channel.lane == command.lane or not command.lane
    return lease.channel.stream == command.stream and of_lane and command.partition in (None, lease.partition)


def _reported(state: Group, member: str, told: dict[str, ToldSplit]) -> Sequence[SplitEvent]:
    held = state.held_by(member)
    events: list[SplitEvent] = []
    for name, each in sorted(told.items()):
        lease = held.get(name)
        if lease is None or lease.epoch != each.epoch:
            continue
        known = state.splits.get(name)
        if each.refused:
            if known is not None and known.asked and known.epoch == each.epoch:
                events.append(SplitRefused(name, each.epoch, each.refused[:HELLO_TEXT_MAX]))
        elif known is None or (known.epoch, known.at, known.share) != (each.epoch, each.at, each.share) or known.asked:
            events.append(LeaseSplit(name, each.epoch, each.at, each.share))
    for name, split in sorted(of_member(state, member).items()):
        waits = (split.asked or bool(split.refused)) and held[name].epoch == split.epoch
        if name not in told and not waits:
            events.append(SplitEnded(name))
    return events
