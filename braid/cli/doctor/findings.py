"""The findings of `doctor`: every check is a function from facts to findings with their remedies. Pure."""

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from braid.api.lagmon.v1.lag_pb2 import Lag
from braid.api.mesh.v1.endpoint_pb2 import ACCESS_MODE_UNSPECIFIED, AccessMode, Plaintext
from braid.api.registry.v1.stream_pb2 import CHANNEL_STATE_ACTIVE, CHANNEL_STATE_STANDBY, Stream
from braid.cli.core.limits import CLI_CLOCK_SKEW_SECONDS
from braid.cli.core.text import offsets_text
from braid.cli.core.times import age_text
from braid.cli.resources.listing import halted, waits_for_a_person
from braid.kernel.errors import BraidError

_SERVICES: Final = ("registry", "assigner")
# What is lost while none of these answers. Records flow without them.
_BESIDE: Final = {
    "lagmon": "how far groups are behind is not known; records flow",
    "dlq": "dead letters are kept, but not listed or replayed",
}


class Level(Enum):
    """The severity of a finding."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


class Finding(NamedTuple):
    """The result of one check. `remedy` says what to do; empty if there is nothing to do."""

    name: str
    check: str
    level: Level
    message: str
    remedy: str = ""


class ReplicaFacts(NamedTuple):
    """One replica's answer about itself. `skew_seconds` is its wall clock ahead of ours, `doubt` by how much
    that may be wrong; `error` why it did not answer; `access` whether it refuses what is not granted. `plaintext` names
    what it speaks with other machines in plain text about."""

    service: str
    instance: str
    address: str
    leader: bool
    skew_seconds: float = 0.0
    doubt_seconds: float = 0.0
    error: BraidError | None = None
    access: "AccessMode.ValueType" = ACCESS_MODE_UNSPECIFIED
    plaintext: "Sequence[Plaintext.ValueType]" = ()


def check_services(replicas: Sequence[ReplicaFacts]) -> list[Finding]:
    """Checks that each service is reachable, has one leader, and a replica that can take over."""
    findings: list[Finding] = []
    for service in _SERVICES:
        known = [each for each in replicas if each.service == service]
        answering = [each for each in known if each.error is None]
        findings += [_unreachable(each) for each in known if each.error is not None]
        findings.append(_led(service, answering))
    for service, lost in _BESIDE.items():
        known = [each for each in replicas if each.service == service]
        findings += [_unreachable(each) for each in known if each.error is not None]
        findings.append(_beside(service, lost, [each for each in known if each.error is None]))
    return findings


def check_lag(lags: Sequence[Lag], catching_up: Sequence[str], now_ms: int) -> list[Finding]:
    """Checks that lagmon's lags are recent, and cover every cluster.

    Args:
        lags: Rows that name their cluster.
        catching_up: Clusters whose offsets are still being read.
        now_ms: The present, for ages.
    """
    findings: list[Finding] = []
    for cluster in sorted({each.cluster for each in lags if each.stale}):
        rows = [each for each in lags if each.stale and each.cluster == cluster]
        since = age_text(min(each.as_of_ms for each in rows), now_ms)
        groups = len({each.group for each in rows})
        message = f"of {groups} group{'s' if groups != 1 else ''} on cluster {cluster} as of {since} ago"
        remedy = f"bring the cluster back: braid describe cluster {cluster}"
        findings.append(Finding("lag", "stale", Level.WARN, message, remedy))
    if catching_up:
        message = f"offsets of {', '.join(sorted(catching_up))} are not read to their end yet: rows may be missing"
        findings.append(
            Finding("lag", "catching-up", Level.WARN, message, "wait; if it stays so, look at lagmon's log")
        )
    return findings or [Finding("lag", "lag", Level.OK, "known and fresh")]


def check_clocks(replicas: Sequence[ReplicaFacts]) -> list[Finding]:
    """Checks that wall clocks agree: lags, retention and histories depend on them."""
    findings: list[Finding] = []
    for each in replicas:
        if each.error is not None:
            continue
        wrong = abs(each.skew_seconds) - each.doubt_seconds > CLI_CLOCK_SKEW_SECONDS
        direction = "ahead of" if each.skew_seconds > 0 else "behind"
        message = f"its clock is {abs(each.skew_seconds):.1f} s {direction} this machine's" if wrong else "clock agrees"
        remedy = "synchronise both clocks (NTP): lags and retention are judged by them" if wrong else ""
        level = Level.FAIL if wrong else Level.OK
        findings.append(Finding(each.instance, "clock", level, message, remedy))
    return findings


def check_stream(stream: Stream) -> list[Finding]:
    """Checks that every lane has a route and a failover target, and that nothing is blocked."""
    name = f"stream/{stream.name}"
    findings: list[Finding] = []
    if stream.status.blocked_reason:
        remedy = "add a cluster, or uncordon one: braid get clusters"
        message = f"traffic cannot leave: {stream.status.blocked_reason}"
        findings.append(Finding(name, "blocked", Level.FAIL, message, remedy))
    findings += _lost(name, stream)
    findings += _lanes(name, stream)
    findings += _stranded(name, stream)
    findings += _halted(name, stream)
    return findings or [Finding(name, "stream", Level.OK, "every lane has a route and a standby")]


def _unreachable(replica: ReplicaFacts) -> Finding:
    reason = replica.error.message if replica.error is not None else "no answer"
    remedy = "start it again, or look at its log; a replica that is gone leaves the list within seconds"
    return Finding(replica.instance, "reachable", Level.FAIL, f"no answer at {replica.address}: {reason}", remedy)


def _led(service: str, answering: Sequence[ReplicaFacts]) -> Finding:
    leaders = [each.instance for each in answering if each.leader]
    if not answering:
        return Finding(service, "led", Level.FAIL, "no replica answers", _start_one(service))
    if not leaders:
        remedy = "wait a few seconds; if it stays so, look at the store the replicas share"
        return Finding(service, "led", Level.FAIL, f"{len(answering)} answer, none leads", remedy)
    if len(answering) == 1:
        remedy = "start a second replica: it takes over when this one dies"
        return Finding(service, "led", Level.WARN, f"{leaders[0]} leads, and nobody could take over", remedy)
    return Finding(service, "led", Level.OK, f"{leaders[0]} leads, {len(answering) - 1} could take over")


def _beside(service: str, lost: str, answering: Sequence[ReplicaFacts]) -> Finding:
    if not answering:
        return Finding(service, "answers", Level.WARN, f"no replica answers: {lost}", _start_one(service))
    leaders = [each.instance for each in answering if each.leader]
    if not leaders:
        remedy = "wait a few seconds; if it stays so, look at the store the replicas share"
        return Finding(service, "answers", Level.WARN, f"{len(answering)} answer, none leads", remedy)
    others = len(answering) - 1
    rest = f"{others} could take over" if others else "alone"
    return Finding(service, "answers", Level.OK, f"{leaders[0]} leads, {rest}")


def _start_one(service: str) -> str:
    return f"start one: python -m services.{service}"


def _lanes(name: str, stream: Stream) -> list[Finding]:
    unrouted: list[str] = []
    alone: list[str] = []
    for lane in sorted(stream.spec.lanes):
        channels = [each for each in stream.status.channels if each.lane == lane]
        active = {each.cluster for each in channels if each.state == CHANNEL_STATE_ACTIVE}
        ready = {each.cluster for each in channels if each.state == CHANNEL_STATE_STANDBY}
        if not active:
            unrouted.append(lane)
        elif len(active | ready) < 2:
            alone.append(lane)
    findings: list[Finding] = []
    if unrouted:
        remedy = f"see why: braid describe stream {stream.name}"
        findings.append(Finding(name, "route", Level.FAIL, f"no route, sends wait: {', '.join(unrouted)}", remedy))
    if alone:
        message = f"no standby, a failover would first make topics: {', '.join(alone)}"
        remedy = "bring up, uncordon or register a second cluster the stream may use"
        findings.append(Finding(name, "standby", Level.WARN, message, remedy))
    return findings


def _lost(name: str, stream: Stream) -> list[Finding]:
    """Checks for lost records. A drain with a loss waits for an operator; other channels only report theirs."""
    findings: list[Finding] = []
    for channel in stream.status.channels:
        told = f"{channel.name} on cluster {channel.cluster}: {offsets_text(channel.lost)} ({channel.lost_evidence})"
        if waits_for_a_person(channel):
            remedy = f"bring them back, or go on without: braid close channel {channel.name} --dry-run"
            findings.append(Finding(name, "lost", Level.FAIL, told, remedy))
        elif channel.lost and not channel.closed:
            remedy = f"nothing waits for them; since when: braid events --for {name}"
            findings.append(Finding(name, "lost", Level.WARN, told, remedy))
    return findings


def _stranded(name: str, stream: Stream) -> list[Finding]:
    clusters: dict[str, list[str]] = {}
    for channel in stream.status.channels:
        if channel.stranded:
            clusters.setdefault(channel.cluster, []).append(channel.name)
    remedy = "bring it back; what is not consumed there is kept"
    return [
        Finding(name, "stranded", Level.WARN, f"waiting for cluster {cluster}: {', '.join(channels)}", remedy)
        for cluster, channels in sorted(clusters.items())
    ]


def _halted(name: str, stream: Stream) -> list[Finding]:
    return [
        Finding(
            name,
            "halted",
            Level.FAIL,
            f"{channel.name} is not consumed, to keep the order: {', '.join(channel.waits_for)} comes first",
            f"restore what that channel waits for, or continue without it: braid release channel {channel.name}",
        )
        for channel in halted(stream)
    ]
