"""Explains, for people, why traffic goes to one cluster and not to others: the end of a move's reason. Pure."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from braid.kernel.limits.registry.traffic import PASSED_OVER_NAMED_MAX
from services.registry.model.streams import Stream
from services.registry.policy.world import Room, Wanted, World, refusals

CARRIES_TOO = "carries the lane too"
STANDBY = "standby"


class Choice(NamedTuple):
    """A lane's traffic goes to this cluster, because `why`."""

    lane: str
    to: str
    why: str


def chosen(world: World, stream: Stream, room: Room, choices: Sequence[Choice], left: Collection[str]) -> Sequence[str]:
    """The target and the reason, by lane if lanes differ; and which other clusters could not take it, except those
    `left`."""
    lanes: dict[str, list[str]] = {}
    for choice in choices:
        lanes.setdefault(f"to {choice.to}: {choice.why}", []).append(choice.lane)
    parted = [f"{text} ({', '.join(sorted({*named}))})" for text, named in sorted(lanes.items())]
    told = [*lanes] if len(lanes) == 1 else parted
    named = {choice.to for choice in choices} | {*left}
    return [*told, *_passed_over(world, stream, room, named, max(stream.spec.lanes[each.lane] for each in choices))]


def _passed_over(world: World, stream: Stream, room: Room, named: Collection[str], partitions: int) -> Sequence[str]:
    reasons = [f"{name} {why}" for name, why in refusals(world, stream, Wanted(partitions, named), room).items()]
    more = len(reasons) - PASSED_OVER_NAMED_MAX
    return [*reasons[:PASSED_OVER_NAMED_MAX], *([f"{more} more cannot"] if more > 0 else [])]
