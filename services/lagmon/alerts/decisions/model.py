"""Alerts, silences and their rules as values. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.lagmon.alerts import ALERT_NAME_SHOWN


class Severity(IntEnum):
    """How soon a person should look, numbered as in `alert.proto`."""

    PAGE = 1
    TICKET = 2


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that leads to an alert.

    Attributes:
        name: Its name, which is part of each alert's name and names its page in `docs/runbooks`.
        after_seconds: How long the condition holds before the alert fires.
        remedy: What would help.
        command: A command to begin with; `{stream}`, `{lane}`, `{group}` and `{cluster}` stand for the subject's.
    """

    name: str
    severity: Severity
    after_seconds: float
    remedy: str
    command: str


LAG_PAGE: Final = Rule(
    "lag-page",
    Severity.PAGE,
    0.0,
    "Add members or capacity to the group, or find what made its handler slow.",
    "get lag {group} --stream {stream}",
)
LAG_TICKET: Final = Rule(
    "lag-ticket",
    Severity.TICKET,
    0.0,
    "The group misses its target a little, all the time: add members, or declare a target that it can meet.",
    "get lag {group} --stream {stream}",
)
GROUP_UNATTENDED: Final = Rule(
    "group-unattended",
    Severity.PAGE,
    10.0,
    "Start the group's application; delete the group if nobody needs it any more.",
    "describe group {group}",
)
PARTITION_STUCK: Final = Rule(
    "partition-stuck",
    Severity.PAGE,
    5.0,
    "Find the record at the oldest undone offset: its handler hangs, or it is retried without end.",
    "get lag {group} --stream {stream} --detail partition",
)
PARTITION_HOT: Final = Rule(
    "partition-hot",
    Severity.TICKET,
    300.0,
    "Most records carry few keys: choose keys that spread, or move the lane to more partitions.",
    "get lag {group} --stream {stream} --detail partition",
)
RETENTION_NEAR: Final = Rule(
    "retention-near",
    Severity.PAGE,
    10.0,
    "Raise retention_hours of the stream, then let the group catch up.",
    "get lag {group} --stream {stream}",
)
FAILOVER_BLOCKED: Final = Rule(
    "failover-blocked",
    Severity.PAGE,
    10.0,
    "Give the stream a healthy cluster that it may use, with room for its partitions.",
    "describe stream {stream}",
)
DRAIN_HELD: Final = Rule(
    "drain-held",
    Severity.TICKET,
    60.0,
    "Start the group that has yet to finish the channel, or close the channel and give its records up.",
    "describe stream {stream}",
)
CLUSTER_DOWN: Final = Rule(
    "cluster-down",
    Severity.PAGE,
    0.0,
    "Bring the cluster's brokers back; its streams are moved away where another cluster can carry them.",
    "describe cluster {cluster}",
)
CLUSTER_DOUBTED: Final = Rule(
    "cluster-doubted",
    Severity.TICKET,
    60.0,
    "Look at the cluster's evidence: it is slow, half dead, or does not answer everybody.",
    "describe cluster {cluster}",
)
TOPIC_UNDER_REPLICATED: Final = Rule(
    "topic-under-replicated",
    Severity.TICKET,
    5.0,
    "Find the broker that is away or slow; Kafka copies by itself once it follows again.",
    "describe stream {stream}",
)
CLUSTER_UNDER_REPLICATED: Final = Rule(
    "cluster-under-replicated",
    Severity.TICKET,
    5.0,
    "Find the broker that is away or slow: many topics lack its copies, and one more failure may stop them.",
    "describe cluster {cluster}",
)
DISK_PAGE: Final = Rule(
    "disk-page",
    Severity.PAGE,
    30.0,
    "Gain room: move a stream off the cluster, or give the broker a larger disk.",
    "describe cluster {cluster}",
)
DISK_TICKET: Final = Rule(
    "disk-ticket",
    Severity.TICKET,
    30.0,
    "Plan for room: a shorter retention, a larger disk, or another cluster for some streams.",
    "describe cluster {cluster}",
)
GROUP_IDLE: Final = Rule(
    "group-idle",
    Severity.TICKET,
    0.0,
    "Start the group's application before drains stop waiting; delete the group if nobody needs it any more.",
    "describe group {group}",
)
GROUP_REWOUND: Final = Rule(
    "group-rewound",
    Severity.TICKET,
    30.0,
    "Find who committed: a tool, or a process that is no member of the group. Records are handled again.",
    "get lag {group} --stream {stream} --detail partition",
)
CERTIFICATE_PAGE: Final = Rule(
    "certificate-page",
    Severity.PAGE,
    60.0,
    "Renew it by braid certs rotate, an authority by braid certs rotate --ca, or by your PKI. Put the new files in the "
    "place of the old ones: they are read without a restart.",
    "doctor",
)
CERTIFICATE_TICKET: Final = Rule(
    "certificate-ticket",
    Severity.TICKET,
    60.0,
    "Find what should have renewed the certificate; braid certs show lists those of a directory that end soon.",
    "doctor",
)

RULES: Final[Mapping[str, Rule]] = {
    rule.name: rule
    for rule in (
        LAG_PAGE,
        LAG_TICKET,
        GROUP_UNATTENDED,
        PARTITION_STUCK,
        PARTITION_HOT,
        RETENTION_NEAR,
        FAILOVER_BLOCKED,
        DRAIN_HELD,
        CLUSTER_DOWN,
        CLUSTER_DOUBTED,
        TOPIC_UNDER_REPLICATED,
        CLUSTER_UNDER_REPLICATED,
        DISK_PAGE,
        DISK_TICKET,
        GROUP_IDLE,
        GROUP_REWOUND,
        CERTIFICATE_PAGE,
        CERTIFICATE_TICKET,
    )
}


class AlertKey(NamedTuple):
    """The rule and subject of an alert; there is at most one open alert for each key.

    Attributes:
        certificate: Who uses the certificate that the alert is about, where it is about one.
    """

    rule: str
    stream: str = ""
    cluster: str = ""
    lane: str = ""
    group: str = ""
    certificate: str = ""

    @property
    def name(self) -> str:
        """The alert's name, which begins with what it is about."""
        subject = f"stream/{self.stream}" if self.stream else f"cluster/{self.cluster}"
        if self.certificate:
            subject = f"certificate/{self.certificate}"
        return "/".join(part for part in (subject, self.rule, self.lane, self.group) if part)


class Condition(NamedTuple):
    """A rule's finding about one subject at one moment.

    Attributes:
        holds: Whether the condition is known to hold, known not to hold, or (None) cannot be told.
        summary: Why, for people.
    """

    key: AlertKey
    holds: bool | None
    summary: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that fired, and fires or was resolved.

    Attributes:
        resolved_ms: When it was resolved; 0 while it fires.
    """

    key: AlertKey
    severity: Severity
    summary: str
    fired_ms: int
    resolved_ms: int = 0
    resolve_reason: str = ""

    @property
    def name(self) -> str:
        """Its name."""
        return self.key.name


@dataclass(frozen=True, slots=True)
class Silence:
    """A time in which nobody is to be told of an alert."""

    reason: str
    created_ms: int
    expire_ms: int
    created_by: str


def check_alert_name(name: str, field: str) -> str:
    """Returns an alert's name if a rule has alerts of such names. Raises `Invalid`."""
    kind, _, rest = name.partition("/")
    subject, *parts = rest.split("/")
    if kind not in ("stream", "cluster", "certificate") or not 1 <= len(parts) <= 3 or parts[0] not in RULES:
        remedy = "copy a name from: braid get alerts"
        raise Invalid(f"{name[:ALERT_NAME_SHOWN]!r} is not the name of an alert", field=field, remedy=remedy)
    for part in (subject, *parts[1:]):
        check_name(part, field)
    return name
