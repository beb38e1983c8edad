"""Derives a cluster's Kafka release from the levels its brokers agreed on. Pure."""

from collections.abc import Mapping
from typing import Final

METADATA_VERSION: Final = "metadata.version"
# The first level of each release; levels only grow, and a release may have several (KIP-778).
_RELEASES: Final = (
    (31, "4.4"),
    (30, "4.3"),
    (28, "4.2"),
    (26, "4.1"),
    (22, "4.0"),
    (21, "3.9"),
    (20, "3.8"),
    (15, "3.7"),
    (12, "3.6"),
    (9, "3.5"),
    (8, "3.4"),
    (4, "3.3"),
    (3, "3.2"),
    (2, "3.1"),
    (1, "3.0"),
)
_NEWEST_LEVEL: Final = 33
OLDEST_SUPPORTED: Final = "3.7"  # what the suite plays; older ones may work
OLDEST_SUPPORTED_LEVEL: Final = 15


def release_text(level: int) -> str:
    """The release that introduced a level of `metadata.version`."""
    if level > _NEWEST_LEVEL:
        return f"newer than Kafka {_RELEASES[0][1]}"
    return next((f"Kafka {release}" for first, release in _RELEASES if level >= first), "older than Kafka 3.0")


def version_text(levels: Mapping[str, int], config: Mapping[str, str]) -> str:
    """A cluster's release, for people.

    Args:
        levels: Feature levels that its brokers agreed on.
        config: A broker's configuration, which gives a rough release if there are no levels.
    """
    if level := levels.get(METADATA_VERSION):
        return f"{release_text(level)} ({METADATA_VERSION} {level})"
    for setting, version in (
        ("group.share.enable", "Kafka 4"),
        ("share.coordinator.append.linger.ms", "Kafka 4"),
        ("group.coordinator.rebalance.protocols", "Kafka 3.7 to 3.9"),
        ("process.roles", "Kafka 3"),
    ):
        if setting in config:
            return version
    return "of unknown version" if not config else "Kafka older than 3"
