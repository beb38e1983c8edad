"""Names and configuration of topics. Pure.

Retention must not delete records before they are done: a topic keeps its stream's retention plus a strand allowance, so
that an outage of days loses nothing. While a channel drains, its topic keeps everything.
"""

from collections.abc import Mapping
from typing import Final

from braid.kernel.errors import Invalid
from braid.kernel.ids import ChannelId
from braid.kernel.limits.registry.health import STRAND_ALLOWANCE_HOURS
from braid.kernel.limits.registry.resources import BATCH_OVERHEAD_BYTES

HOUR_MS: Final = 3_600_000
_COPIES_DEFAULT: Final = 3
MIN_IN_SYNC: Final = "min.insync.replicas"
KEEP_EVERYTHING: Final = {"retention.ms": "-1"}
SEALED: Final = {"max.message.bytes": "0"}
_SEGMENT_MS_MIN: Final = HOUR_MS // 6
_SEGMENT_MS_MAX: Final = 7 * 24 * HOUR_MS
_SEGMENTS_PER_RETENTION: Final = 8  # a log outlives its retention by at most one of these
_SEGMENT_BYTES_MIN: Final = 64 << 20

# What Braid decides itself, each beside the field that says it.
_OWNED: Final = {
    "retention.ms": "set retention_hours",
    "retention.bytes": "a bound on bytes would eat a tail; set retention_hours",
    "max.message.bytes": "set max_record_bytes",
    "cleanup.policy": "streams are deleted by time; compaction would hide records not done",
    "local.retention.ms": "tiered topics are not drained safely",
    "local.retention.bytes": "tiered topics are not drained safely",
    "remote.storage.enable": "tiered topics are not drained safely",
}
_PASSED_ON: Final = frozenset(
    {
        "compression.type",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "follower.replication.throttled.replicas",
        "index.interval.bytes",
        "leader.replication.throttled.replicas",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "preallocate",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)


def check_topic_config(config: Mapping[str, str]) -> None:
    """Raises `Invalid`, naming the field, for a setting Braid decides itself or Kafka does not know."""
    for name in sorted(config):
        field = f"spec.topic_config.{name}"
        if name in _OWNED:
            raise Invalid(f"{name} follows from the stream", field=field, remedy=_OWNED[name])
        if name not in _PASSED_ON:
            raise Invalid(f"{name} is not a topic setting", field=field, remedy="see Kafka's topic configuration")


def topic_config(
    retention_hours: int, max_record_bytes: int, replication_factor: int, further: Mapping[str, str]
) -> dict[str, str]:
    """The configuration a channel's topic is created with.

    Segments roll after a share of the retention. Otherwise a topic with few records would keep them for the week after
    which Kafka rolls a segment by itself.
    """
    retention_ms = (retention_hours + STRAND_ALLOWANCE_HOURS) * HOUR_MS
    segment_ms = max(_SEGMENT_MS_MIN, min(_SEGMENT_MS_MAX, retention_hours * HOUR_MS // _SEGMENTS_PER_RETENTION))
    derived = {
        "cleanup.policy": "delete",
        "max.message.bytes": str(max_record_bytes + BATCH_OVERHEAD_BYTES),
        "retention.bytes": "-1",
        "retention.ms": str(retention_ms),
        "segment.bytes": str(max(_SEGMENT_BYTES_MIN, 2 * max_record_bytes)),
        "segment.ms": str(segment_ms),
    }
    if needed := default_in_sync(replication_factor):
        derived[MIN_IN_SYNC] = needed
    return {**derived, **further}


def drained_retention(retention_hours: int) -> dict[str, str]:
    """The retention setting of a drained topic: its stream's retention, without the allowance."""
    return {"retention.ms": str(retention_hours * HOUR_MS)}


def reconfigurable(config: Mapping[str, str]) -> dict[str, str]:
    """Settings that may be written again on a topic in use: all but the size limit, which seals a topic."""
    return {name: value for name, value in config.items() if name != "max.message.bytes"}


def default_in_sync(copies: int) -> str | None:
    """How many of a partition's copies an append needs if nothing is declared; None for the cluster's setting.

    Two of three or more: a record that only one copy acknowledged can be lost with it. One of one, which must be set
    explicitly: if the cluster asks for two, Kafka 4 may consider an only copy ineligible once its broker was away, and
    then nobody leads.
    """
    if copies == 1:
        return "1"
    return "2" if copies > 2 else None


def default_copies(brokers: int) -> int:
    """Copies of a partition if none are declared: three if the cluster has that many brokers."""
    return max(1, min(_COPIES_DEFAULT, brokers))


def canary_topic(prefix: str) -> str:
    """The topic that probes append to. It has one dot fewer than any channel's topic, so no stream can have this
    name."""
    return f"{prefix}canary.registry"


def tried_topic(prefix: str) -> str:
    """The topic name used to ask a cluster whether it would create one. No topic of this name is ever created."""
    return f"{prefix}tried.registry"


CANARY_CONFIG: Final = {"cleanup.policy": "delete", "retention.ms": str(HOUR_MS), "segment.ms": str(HOUR_MS)}
MARK_CONFIG: Final = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_MARK: Final = "mesh.registry"


def mark_topic(prefix: str) -> str:
    """The topic that carries a cluster's mesh mark. Like the canary's, it has one dot fewer than any channel's
    topic."""
    return f"{prefix}{_MARK}"


def prefix_of_mark(topic: str) -> str | None:
    """The prefix a mark log was created under; None for any other topic."""
    return topic.removesuffix(_MARK) if topic.endswith(_MARK) else None


def channel_of(prefix: str, topic: str) -> ChannelId | None:
    """The channel in a topic's name; None for a topic of another kind or under another prefix."""
    parts = topic.removeprefix(prefix).split(".")
    if not topic.startswith(prefix) or len(parts) != 3:
        return None
    try:
        return ChannelId.parse("/".join(parts))
    except Invalid:
        return None
