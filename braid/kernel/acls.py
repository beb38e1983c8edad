"""The Kafka ACLs (KIP-11, prefixed ones KIP-290) that each role needs, and no others. Pure; no broker is asked.

A permission that another one implies is left out: Read and Write imply Describe, AlterConfigs implies DescribeConfigs.
Writing to any topic is what an idempotent producer needs (KIP-679), so nobody needs IdempotentWrite.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from braid.kernel.envelope.spill import TOPIC as PROGRESS_TOPIC
from braid.kernel.errors import Invalid
from braid.kernel.ids import DLQ_LANE, check_name
from braid.kernel.ports import Acl

TOPIC_PREFIX: Final = "braid."  # of clusters that declare no other
CLUSTER_NAME: Final = "kafka-cluster"  # how Kafka calls a cluster as a resource
ANY: Final = "*"
OFFSETS_TOPIC: Final = "__consumer_offsets"
ROLES: Final = ("producer", "consumer", "reader", "service")
_SERVICE_GROUPS: Final = "braid-"  # of the dlq service, and copies of progress while a group's fencing changes
_PREFIX: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_PRINCIPAL: Final = re.compile(r"User:(\S[^\r\n]*)|([^\s:][^:\r\n]*)")


@dataclass(frozen=True, slots=True)
class AclScope:
    """The topics, groups and settings that a role works with.

    Attributes:
        streams: For producers, consumers and readers; empty for all streams.
        lanes: Of these streams; empty for all lanes.
        groups: For consumers, at least one; for services, all groups of the mesh, or empty for any.
        topic_prefix: The cluster's.
        change_copies: Services may move copies of partitions between brokers, too.
        set_quotas: Services may set quotas of tenants' Kafka users, too.
    """

    streams: Sequence[str] = ()
    lanes: Sequence[str] = ()
    groups: Sequence[str] = ()
    topic_prefix: str = TOPIC_PREFIX
    change_copies: bool = field(default=False)
    set_quotas: bool = field(default=False)


def acls_of(role: str, scope: AclScope) -> Sequence[Acl]:
    """The permissions that a role needs on one cluster, without repetition.

    Raises:
        Invalid: an unknown role, a name out of form, or what the role does not take; `field` names the option.
    """
    _check(role, scope)
    made = {"producer": _producer, "consumer": _consumer, "reader": _reader, "service": _service}
    return made[role](scope)


def check_principal(text: str) -> str:
    """A principal as ACLs name it: `User:NAME`. Raises `Invalid`."""
    found = _PRINCIPAL.fullmatch(text)
    if found is None:
        remedy = "write User:NAME; with client certificates NAME is their subject, User:CN=app,O=Example"
        raise Invalid(f"{text!r} is not a principal", field="--principal", remedy=remedy)
    return f"User:{found[1] or found[2]}"


def _producer(scope: AclScope) -> list[Acl]:
    reasons = (
        ("Write", "send records, find leaders, get an idempotent producer's id"),
        ("DescribeConfigs", "tell a sealed topic from a record that is too large"),
    )
    return [each for name in _topics(scope, scope.lanes) for each in _prefixed(name, reasons)]


def _consumer(scope: AclScope) -> list[Acl]:
    dead_letters = (
        ("Write", "copy records that failed to the dlq lane"),
        ("DescribeConfigs", "tell a sealed topic from a dead letter that is too large"),
    )
    return [
        *(each for name in _topics(scope, scope.lanes) for each in _prefixed(name, [("Read", "fetch, and commit")])),
        *(each for name in _dead_letters(scope) for each in _prefixed(name, dead_letters)),
        *(Acl("Group", name, "Literal", "Read", "read and commit progress") for name in dict.fromkeys(scope.groups)),
        *_progress(),
        Acl("Cluster", CLUSTER_NAME, "Literal", "DescribeConfigs", "learn how much metadata a commit may carry"),
    ]


def _reader(scope: AclScope) -> list[Acl]:
    """Permissions to look at records without a group, as the console and `braid consume` do. They write nothing."""
    reasons = [("Read", "fetch records, find the ends of logs")]
    return [each for name in _topics(scope, scope.lanes) for each in _prefixed(name, reasons)]


def _service(scope: AclScope) -> list[Acl]:
    own = (
        ("Create", "make topics of channels, the canary's and the mark's"),
        ("Delete", "delete topics of retired channels"),
        ("AlterConfigs", "seal topics, set and read their retention"),
        ("Read", "read dead letters, marks and ends of logs"),
        ("Write", "append canaries, marks and replayed dead letters"),
    )
    group = (("Read", "hold a group's generation, read and set its progress"), ("Delete", "end a membership"))
    named = [("Literal", name) for name in dict.fromkeys(scope.groups)]
    groups = [*named, ("Prefixed", _SERVICE_GROUPS)] if named else [("Literal", ANY)]
    return [
        *_prefixed(scope.topic_prefix, own),
        Acl("Topic", OFFSETS_TOPIC, "Literal", "Read", "measure lag"),
        *_progress(),
        Acl("Topic", ANY, "Literal", "Describe", "see marks of other meshes, and all topics of a group's progress"),
        *(Acl("Group", name, pattern, operation, why) for pattern, name in groups for operation, why in group),
        *_service_cluster(scope),
    ]


def _service_cluster(scope: AclScope) -> Iterable[Acl]:
    """Permissions on the cluster as a whole.

    Moving copies needs Alter, which also allows changing ACLs. Setting quotas needs AlterConfigs, which also allows
    changing brokers' settings. Only who asks for them gets them.
    """
    changes = {
        "bound the bandwidth of moves": scope.change_copies,
        "set quotas of tenants' users": scope.set_quotas,
    }
    reasons = [reason for reason, wanted in changes.items() if wanted]
    if scope.change_copies:
        yield _on_cluster("Alter", "move copies between brokers, read the room on their disks, list groups")
    else:
        yield _on_cluster("Describe", "read the room on brokers' disks, list groups and reassignments")
    yield _on_cluster("AlterConfigs" if reasons else "DescribeConfigs", ", ".join([*reasons, "read brokers' settings"]))


def _on_cluster(operation: str, reason: str) -> Acl:
    return Acl("Cluster", CLUSTER_NAME, "Literal", operation, reason)


def _progress() -> Iterable[Acl]:
    permissions = (
        ("Create", "make the topic of progress that does not fit a commit"),
        ("Read", "read progress that does not fit a commit"),
        ("Write", "write progress that does not fit a commit"),
    )
    return (Acl("Topic", PROGRESS_TOPIC, "Literal", operation, why) for operation, why in permissions)


def _topics(scope: AclScope, lanes: Sequence[str]) -> list[str]:
    """Beginnings of the names of channels' topics: `<prefix><stream>.<lane>.`; generations follow."""
    if not scope.streams:
        return [scope.topic_prefix]
    ends = [f"{lane}." for lane in dict.fromkeys(lanes)] or [""]
    return [f"{scope.topic_prefix}{stream}.{end}" for stream in dict.fromkeys(scope.streams) for end in ends]


def _dead_letters(scope: AclScope) -> list[str]:
    return _topics(scope, [DLQ_LANE])


def _prefixed(name: str, permissions: Iterable[tuple[str, str]]) -> list[Acl]:
    return [Acl("Topic", name, "Prefixed", operation, reason) for operation, reason in permissions]


def _check(role: str, scope: AclScope) -> None:
    if role not in ROLES:
        raise Invalid(f"there is no role {role!r}", field="--role", remedy=f"use one of {', '.join(ROLES)}")
    for option, names in (("--stream", scope.streams), ("--lane", scope.lanes), ("--group", scope.groups)):
        for name in names:
            check_name(name, option)
    if not _PREFIX.fullmatch(scope.topic_prefix):
        remedy = "use what the cluster declares: 1 to 64 letters, digits, dots, hyphens and underscores"
        raise Invalid(f"{scope.topic_prefix!r} cannot begin a topic's name", field="--topic-prefix", remedy=remedy)
    unwanted = {
        "--stream": role == "service" and scope.streams,
        "--lane": scope.lanes and not scope.streams,
        "--group": role in ("producer", "reader") and scope.groups,
        "--change-copies": role != "service" and scope.change_copies,
        "--set-quotas": role != "service" and scope.set_quotas,
    }
    for option, found in unwanted.items():
        if found:
            needs = "it goes with --stream" if option == "--lane" else f"leave it out for a {role}"
            raise Invalid(f"{option} is not for this role", field=option, remedy=needs)
    if role == "consumer" and not scope.groups:
        raise Invalid("a consumer reads for a group", field="--group", remedy="name each of its groups: --group NAME")
