"""The curves of a run's timeline, from logs and histories: routes, throughput by cluster, lag. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from braid.api.mesh.v1.event_pb2 import EventRecord
from braid.api.registry.v1.events_pb2 import ChannelRef, RegistryEvent
from testbed.ground.journals import Line
from testbed.ground.load import fate_of

SLICE_MS: Final = 250
_Ref = tuple[str, int]


class Route(NamedTuple):
    """Which clusters carried a lane for a while, and which part of a hundred records each."""

    lane: str
    begin_ms: int
    end_ms: int
    shares: Mapping[str, float]


def routes(history: Iterable[EventRecord], end_ms: int) -> list[Route]:
    """Every route of every lane of a stream, from its events in order; the last ones end with the run."""
    clusters: dict[_Ref, str] = {}
    weights: dict[_Ref, float] = {}
    open_since: dict[str, int] = {}
    found: list[Route] = []
    for record in history:
        event, now = RegistryEvent.FromString(record.data), record.metadata.time_ms
        planned, moved = event.channel_planned, event.traffic_moved
        if event.HasField("channel_planned"):
            clusters[planned.lane, planned.generation] = planned.cluster
        elif event.HasField("traffic_moved"):
            lanes = {each.lane for each in moved.activated} | {ref.lane for ref in moved.draining}
            found += [_route(lane, open_since[lane], now, weights, clusters) for lane in lanes & open_since.keys()]
            for each in moved.activated:
                weights[each.lane, each.generation] = each.weight
            for ref in moved.draining:
                weights.pop(_ref(ref), None)
            open_since |= dict.fromkeys(lanes, now)
    found += [_route(lane, begin, end_ms, weights, clusters) for lane, begin in open_since.items()]
    return sorted(found, key=lambda route: (route.lane, route.begin_ms))


def _ref(ref: ChannelRef) -> _Ref:
    return ref.lane, ref.generation


def _route(lane: str, begin: int, end: int, weights: Mapping[_Ref, float], clusters: Mapping[_Ref, str]) -> Route:
    mine = {ref: weight for ref, weight in weights.items() if ref[0] == lane}
    shares: dict[str, float] = {}
    for ref, weight in mine.items():
        shares[clusters[ref]] = shares.get(clusters[ref], 0.0) + 100 * weight / sum(mine.values())
    return Route(lane, begin, end, shares)


def span(lines: Sequence[Line]) -> tuple[int, int]:
    """From the first line to the last, in milliseconds of the wall clock."""
    times = [line.ms for line in lines] or [0]
    return min(times), max(times) + 1


def throughput(lines: Sequence[Line], kind: str, begin_ms: int) -> dict[str, Counter[int]]:
    """By cluster, how many lines of a kind fell into each slice of time."""
    found: dict[str, Counter[int]] = {}
    for line in lines:
        if line.kind == kind:
            found.setdefault(line.cluster, Counter())[(line.ms - begin_ms) // SLICE_MS] += 1
    return found


def lag(lines: Sequence[Line], given_up_ms: Callable[[Line], int | None]) -> list[int]:
    """At the end of each slice, how many acknowledged records no member has settled yet.

    What becomes a dead letter does so behind the members' logs, and counts as settled at once; what was given up by
    name counts until then.
    """
    begin_ms, end_ms = span(lines)
    changes: Counter[int] = Counter()
    settled: dict[bytes, int] = {}
    for line in lines:
        if line.kind in ("processed", "rejected"):
            settled[line.value] = min(line.ms, settled.get(line.value, line.ms))
    for line in lines:
        if line.kind == "acked" and fate_of(line.value) != "poison":
            changes[(line.ms - begin_ms) // SLICE_MS] += 1
            done = settled.get(line.value, given_up_ms(line))
            if done is not None:
                changes[(max(done, line.ms) - begin_ms) // SLICE_MS] -= 1
    found, waiting = [], 0
    for number in range((end_ms - begin_ms) // SLICE_MS + 1):
        waiting += changes[number]
        found.append(waiting)
    return found
