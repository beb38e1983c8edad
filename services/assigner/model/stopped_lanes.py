"""Lanes that members have stopped, as they report them, and operators' requests to resume one. Pure.

A member stops a lane rather than dead-letter most of it. It reports all its stopped lanes at each change and with each
hello, so a repeated or late report is the same.
"""

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from braid.kernel.decider import Context
from braid.kernel.errors import NotFound
from braid.kernel.limits.assigner.leases import HELLO_TEXT_MAX
from services.assigner.model.group import Group, Stop


@dataclass(frozen=True, slots=True)
class LaneStopped:
    """A member hands out no more records of a lane."""

    member: str
    lane: str
    reason: str


@dataclass(frozen=True, slots=True)
class LaneResumed:
    """A member hands records of a lane out again."""

    member: str
    lane: str


@dataclass(frozen=True, slots=True)
class LaneResumeAsked:
    """An operator wants the member to go on with the lane."""

    member: str
    lane: str


StopEvent = LaneStopped | LaneResumed | LaneResumeAsked


@dataclass(frozen=True, slots=True)
class ReportStops:
    """A member's report of all its stopped lanes, each with its reason."""

    member: str
    lanes: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ResumeLane:
    """Asks members (all that stopped the lane, or one by id or client id) to resume it."""

    lane: str
    member: str = ""


StopCommand = ReportStops | ResumeLane


def decide(state: Group, command: StopCommand) -> Sequence[StopEvent]:
    """Returns the events of a report or a request. Raises `NotFound` if no member has stopped the lane."""
    match command:
        case ReportStops(member, lanes):
            return _reported(state, member, dict(lanes))
        case ResumeLane(lane, member):
            found = [stop for stop in state.stops.values() if stop.lane == lane and _called(state, stop, member)]
            if not found:
                who = f"member {member!r}" if member else "no member"
                verb = "has not" if member else "has"
                raise NotFound(
                    f"{who} of group {state.name!r} {verb} stopped with lane {lane!r}",
                    field="lane",
                    remedy="see who has: braid get members -o wide",
                )
            return [LaneResumeAsked(stop.member, lane) for stop in found]


def evolve(state: Group, event: StopEvent, context: Context) -> Group:
    """Applies an event about stopped lanes."""
    key = f"{event.member}/{event.lane}"
    stops = dict(state.stops)
    match event:
        case LaneStopped(member, lane, reason):
            stops[key] = Stop(member, lane, reason, context.now_ms)
        case LaneResumed():
            stops.pop(key, None)
        case LaneResumeAsked():
            if key in stops:
                stops[key] = replace(stops[key], asked=True)
    return replace(state, stops=stops)


def of_member(state: Group, member: str) -> Sequence[Stop]:
    """Returns the lanes that a member has stopped."""
    return [stop for _, stop in sorted(state.stops.items()) if stop.member == member]


def asked(state: Group, member: str, lanes: Container[str]) -> Sequence[str]:
    """Returns stopped lanes in a hello that the member was asked to resume, perhaps without hearing it."""
    return [stop.lane for stop in of_member(state, member) if stop.asked and stop.lane in lanes]


def _reported(state: Group, member: str, lanes: dict[str, str]) -> Sequence[StopEvent]:
    if member not in state.members:
        return ()
    consumed = {channel.id.lane for channel in state.channels.values()}
    told = {lane: reason[:HELLO_TEXT_MAX] for lane, reason in lanes.items() if lane in consumed}
    known = {stop.lane: stop.reason for stop in of_member(state, member)}
    resumed = [LaneResumed(member, lane) for lane in sorted(known) if lane not in told]
    stopped = [LaneStopped(member, lane, told[lane]) for lane in sorted(told) if known.get(lane) != told[lane]]
    return [*resumed, *stopped]


def _called(state: Group, stop: Stop, name: str) -> bool:
    member = state.members.get(stop.member)
    return not name or name == stop.member or (member is not None and member.client_id == name)
