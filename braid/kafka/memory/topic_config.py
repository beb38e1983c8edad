"""Topic settings as the twin's brokers know them, with Kafka's defaults."""

from collections.abc import Mapping
from typing import Final

from braid.kernel.errors import Invalid

TOPIC_DEFAULTS: Final = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


_DIGITS_MAX: Final = 19  # of a long, Kafka's longest number
_OF_ALL_BROKERS: Final = frozenset({"leader.replication.throttled.rate", "follower.replication.throttled.rate"})


def alter(config: dict[str, str], changes: Mapping[str, str | None]) -> None:
    """Changes settings; None restores a default."""
    for name, value in changes.items():
        if value is None:
            config.pop(name, None)
        else:
            config[name] = value


def check_broker_defaults(changes: Mapping[str, str | None]) -> None:
    """Raises `Invalid` for what the twin's brokers cannot be set to at run time."""
    if unknown := sorted(set(changes) - _OF_ALL_BROKERS):
        raise Invalid(f"all brokers: unknown configuration {', '.join(unknown)}")


def check_topic_config(topic: str, config: Mapping[str, str | None]) -> None:
    """Raises `Invalid` for a setting that topics do not have, and for a text in place of a number."""
    unknown = sorted(set(config) - set(TOPIC_DEFAULTS))
    if unknown:
        raise Invalid(f"topic {topic}: unknown configuration {', '.join(unknown)}")
    for name, value in config.items():
        if value is not None and _is_number(TOPIC_DEFAULTS[name]) and not _is_number(value):
            raise Invalid(f"topic {topic}: {name} cannot be {value!r}")


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX
