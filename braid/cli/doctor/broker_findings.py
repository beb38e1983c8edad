"""`doctor`'s findings on brokers and topics: settings that lose or refuse records, and brokers that differ. Pure."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from braid.cli.doctor.findings import Finding, Level
from braid.cli.doctor.release_findings import check_releases
from braid.cli.doctor.releases import METADATA_VERSION, release_text
from braid.cli.manifests.stream_warnings import UNCLEAN
from braid.kernel.errors import BraidError
from braid.kernel.limits.envelope import ENVELOPE_UNITS_DEFAULT
from braid.kernel.limits.registry.traffic import OFFSETS_RETENTION_MINUTES_MIN
from braid.kernel.ports import BrokerDescription, ClusterDescription

IN_SYNC: Final = "min.insync.replicas"
_OFFSETS_COPIES: Final = "offsets.topic.replication.factor"
_COPIES_WANTED: Final = 3  # where there are so many brokers: one may die while another is away
_NAMED_MAX: Final = 3  # topics in a message
_BRING_BACK: Final = f"bring its brokers back; leave {IN_SYNC} as it is: with less, what is acknowledged may be lost"
# What Braid relies on, and what whichever broker leads applies to what it leads.
_COMPARED: Final = (
    "auto.create.topics.enable",
    "default.replication.factor",
    "group.max.session.timeout.ms",
    "message.max.bytes",
    IN_SYNC,
    "offset.metadata.max.bytes",
    "offsets.retention.minutes",
    _OFFSETS_COPIES,
    UNCLEAN,
)


class BrokerFacts(NamedTuple):
    """A broker, and its own settings as read from here; None if it does not answer."""

    broker: int
    description: BrokerDescription | None
    error: BraidError | None = None


class TopicFacts(NamedTuple):
    """A channel's topic: whether records are or may soon be written there, its copies, its own settings.

    `settled` is the number of copies that the registry established last; 0 if it is unknown or about to change.
    """

    topic: str
    written: bool
    copies: int
    config: Mapping[str, str]
    settled: int = 0


def check_brokers(
    name: str,
    allows_auto_create: bool,
    told: ClusterDescription,
    brokers: Sequence[BrokerFacts],
    usual_brokers: Collection[int] = (),
) -> list[Finding]:
    """Checks that every broker answers from here and has sound settings, the same as the others.

    The advice counts the brokers that the cluster usually has: it must not lower durability during an outage.

    Args:
        name: Name of the findings.
        allows_auto_create: Whether the cluster may create topics by itself.
        told: The cluster's description of itself.
        brokers: Every broker, if they were asked.
        usual_brokers: Brokers that the cluster usually has, absent ones included, as the registry knows them.
    """
    usual = len({*told.brokers, *usual_brokers})
    findings = [_silent(name, each) for each in brokers if each.description is None]
    described = {each.broker: each.description for each in brokers if each.description is not None}
    views = {
        broker: ClusterDescription.configured(told.cluster_id, told.controller, told.brokers, each.config)
        for broker, each in described.items()
    }
    findings += _of_each(
        views or {told.controller: told}, lambda view: _settings(name, allows_auto_create, view, usual)
    )
    return [*findings, *check_releases(name, described), *_differences(name, described)]


def check_topics(name: str, brokers: int, topics: Sequence[TopicFacts], away: int = 0) -> list[Finding]:
    """Checks that topics of channels have no own setting that loses or refuses records.

    Args:
        name: Name of the findings.
        brokers: Number of brokers that the cluster usually has.
        topics: Topics of channels there.
        away: Number of brokers that do not serve now.
    """
    unclean = [each.topic for each in topics if each.config.get(UNCLEAN) == "true"]
    refused, stopped, tight, loose = [], [], [], []
    for each in topics:
        needed = int(each.config.get(IN_SYNC, "1"))
        if not each.written:
            continue
        if needed > min(each.copies, brokers):
            refused.append(each.topic)
        elif needed > brokers - away:
            stopped.append(each.topic)
        elif needed == each.copies > 1:
            tight.append(each.topic)
        elif needed < 2 and each.copies >= _COPIES_WANTED:
            loose.append(each.topic)
    thin = [each.topic for each in topics if each.written and each.copies < each.settled]
    more = _declare(f"{IN_SYNC}=2")
    # While brokers are away the remedy is more copies or brokers, never a promise of less.
    fewer = _BRING_BACK if away else _declare(f"a smaller {IN_SYNC}")
    return [
        *_stopped(name, stopped, away, brokers),
        *_of_topics(
            name,
            "unclean",
            Level.FAIL,
            unclean,
            "a copy that lags may become the leader: records would be lost",
            _declare(f"{UNCLEAN}=false"),
        ),
        *_of_topics(name, "in-sync", Level.FAIL, refused, "too few copies: nothing is acknowledged", fewer),
        *_of_topics(name, "in-sync", Level.WARN, tight, "with one broker away nothing is acknowledged", fewer),
        *_of_topics(
            name,
            "copies",
            Level.WARN,
            thin,
            "fewer copies than the registry had set: partitions were reassigned, and not by the registry",
            "reassign them again, or declare another replication_factor and then this one",
        ),
        *_of_topics(name, "in-sync", Level.WARN, loose, "what one copy acknowledges may be lost with it", more),
    ]


def _stopped(name: str, topics: Sequence[str], away: int, brokers: int) -> Sequence[Finding]:
    if not topics:
        return ()
    message = f"{_named(topics)}: {_away(away, brokers)}, nothing is acknowledged"
    return [Finding(name, "topic-in-sync", Level.FAIL, message, _BRING_BACK)]


def _away(away: int, brokers: int) -> str:
    return f"{away} of {brokers} brokers {'is' if away == 1 else 'are'} away"


def _of_topics(
    name: str, check: str, level: Level, topics: Sequence[str], message: str, remedy: str
) -> Sequence[Finding]:
    if not topics:
        return ()
    return [Finding(name, f"topic-{check}", level, f"{_named(topics)}: {message}", remedy)]


def _declare(wanted: str) -> str:
    return f"declare {wanted} in topic_config of the streams, or set it on the brokers if it comes from there"


def _named(topics: Sequence[str]) -> str:
    more = f" and {len(topics) - _NAMED_MAX} more" if len(topics) > _NAMED_MAX else ""
    return f"topic{'s' if len(topics) > 1 else ''} {', '.join(sorted(topics)[:_NAMED_MAX])}{more}"


def _silent(name: str, facts: BrokerFacts) -> Finding:
    reason = facts.error.message if facts.error is not None else "no answer"
    remedy = "check the network from this machine, and its advertised listeners"
    return Finding(name, "broker", Level.FAIL, f"broker {facts.broker} does not answer here: {reason}", remedy)


def _of_each(
    views: Mapping[int, ClusterDescription], check: Callable[[ClusterDescription], Sequence[Finding]]
) -> list[Finding]:
    """Findings from each broker's settings; a finding that not all brokers share names those that do."""
    found: dict[Finding, list[int]] = {}
    for broker, view in views.items():
        for finding in check(view):
            found.setdefault(finding, []).append(broker)
    return [
        each if len(brokers) == len(views) else each._replace(message=f"{each.message} ({_brokers(brokers)})")
        for each, brokers in found.items()
    ]


def _brokers(numbers: Sequence[int]) -> str:
    return f"broker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, sorted(numbers)))}"


def _settings(name: str, allows_auto_create: bool, description: ClusterDescription, usual: int) -> list[Finding]:
    findings: list[Finding] = []
    if description.auto_creates_topics:
        remedy = "set auto.create.topics.enable=false on its brokers: deleted topics rise again otherwise"
        level = Level.WARN if allows_auto_create else Level.FAIL
        findings.append(Finding(name, "auto-create", level, "brokers create topics by themselves", remedy))
    minutes = description.offsets_retention_minutes
    if minutes < OFFSETS_RETENTION_MINUTES_MIN:
        message = f"progress of idle groups is forgotten after {minutes / 1440:.1f} days"
        remedy = f"set offsets.retention.minutes to {OFFSETS_RETENTION_MINUTES_MIN} or more on its brokers"
        findings.append(Finding(name, "offsets-retention", Level.WARN, message, remedy))
    if description.default_config.get(UNCLEAN, "false") == "true":
        message = "a broker that lags may become leader: acknowledged records can be lost"
        findings.append(Finding(name, "unclean-election", Level.FAIL, message, f"set {UNCLEAN}=false on its brokers"))
    findings += _copies(name, description, usual)
    units = description.offset_metadata_max_units
    if units < ENVELOPE_UNITS_DEFAULT:
        message = f"commits carry {units} units of progress, {ENVELOPE_UNITS_DEFAULT} are usual"
        remedy = f"set offset.metadata.max.bytes to {ENVELOPE_UNITS_DEFAULT} on its brokers"
        findings.append(Finding(name, "commit-metadata", Level.WARN, message, remedy))
    return findings


def _copies(name: str, description: ClusterDescription, brokers: int) -> list[Finding]:
    """Checks how many copies the cluster keeps of acknowledged records and of committed progress."""
    serving = len(description.brokers)
    wanted = min(_COPIES_WANTED, brokers)
    findings: list[Finding] = []
    in_sync = int(description.default_config.get(IN_SYNC, min(2, wanted)))
    if in_sync > brokers > 0:
        message = f"a record needs {in_sync} copies, there are {brokers} brokers: nothing is acknowledged"
        remedy = f"set {IN_SYNC} to at most {max(1, brokers - 1)}, or add brokers"
        findings.append(Finding(name, "in-sync", Level.FAIL, message, remedy))
    elif in_sync > serving > 0:
        message = f"a record needs {in_sync} copies, {_away(brokers - serving, brokers)}: nothing is acknowledged"
        findings.append(Finding(name, "in-sync", Level.FAIL, message, _BRING_BACK))
    elif in_sync == brokers > 1:
        message = f"a record needs all {brokers} brokers: when one is away nothing is acknowledged"
        findings.append(Finding(name, "in-sync", Level.WARN, message, f"set {IN_SYNC}={brokers - 1} on its brokers"))
    elif in_sync < 2 and wanted == _COPIES_WANTED:
        message = "progress, and records of streams with two copies, may be acknowledged by one and lost with it"
        findings.append(Finding(name, "in-sync", Level.WARN, message, f"set {IN_SYNC}=2 on its brokers"))
    copies = int(description.default_config.get(_OFFSETS_COPIES, wanted))
    if copies < wanted:
        message = f"progress of groups is kept {copies} time{'s' if copies != 1 else ''}, on {brokers} brokers"
        remedy = f"set {_OFFSETS_COPIES}={wanted} on its brokers, and reassign __consumer_offsets"
        findings.append(Finding(name, "offsets-copies", Level.WARN, message, remedy))
    return findings


def _differences(name: str, described: Mapping[int, BrokerDescription]) -> list[Finding]:
    """Checks that brokers have the same settings, the same release and the same agreed level."""
    settings = [
        f"{setting} is {told}"
        for setting in _COMPARED
        if (told := _split({broker: each.config.get(setting, "") for broker, each in described.items()}))
    ]
    releases, levels = {}, {}
    for broker, each in described.items():
        if level := each.supported.get(METADATA_VERSION):
            releases[broker] = release_text(level)
        if level := each.finalized.get(METADATA_VERSION):
            levels[broker] = f"{METADATA_VERSION} {level}"
    rows = (
        ("differences", "; ".join(settings), "set it alike everywhere: which broker leads decides what happens"),
        ("releases", _split(releases), "finish the upgrade"),
        ("levels", _split(levels), "wait; then restart the broker that lags"),
    )
    return [Finding(name, check, Level.WARN, f"brokers differ: {told}", remedy) for check, told, remedy in rows if told]


def _split(values: Mapping[int, str]) -> str:
    """Which brokers report which value, the smallest group first; '' if all that report agree."""
    brokers: dict[str, list[int]] = {}
    for broker, value in values.items():
        if value:
            brokers.setdefault(value, []).append(broker)
    ordered = sorted(brokers.items(), key=lambda each: (len(each[1]), each[0]))
    return ", ".join(f"{value} on {_brokers(those)}" for value, those in ordered) if len(ordered) > 1 else ""
