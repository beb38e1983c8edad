"""`doctor`'s findings on brokers' releases: too old, an unfinished upgrade, or a missing request. Pure."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from braid.cli.doctor.findings import Finding, Level
from braid.cli.doctor.releases import METADATA_VERSION, OLDEST_SUPPORTED, OLDEST_SUPPORTED_LEVEL, release_text
from braid.kernel.ports import BrokerDescription


class Need(NamedTuple):
    """A Kafka protocol request that Braid uses, and what fails without it."""

    request: str
    key: int
    version: int
    since: str
    purpose: str


NEEDS: Final = (
    Need("Metadata", 3, 10, "2.8", "topics are not told apart by their ids"),
    Need("OffsetCommit", 8, 6, "2.1", "progress is not committed"),
    Need("OffsetFetch", 9, 5, "2.1", "progress is not read"),
    Need("ListGroups", 16, 4, "2.6", "groups are not listed"),
    Need("OffsetForLeaderEpoch", 23, 3, "2.3", "logs that were cut short are not recognised"),
    Need("DescribeLogDirs", 35, 4, "3.3", "the room on disks is not measured"),
    Need("IncrementalAlterConfigs", 44, 0, "2.3", "topics are not sealed or configured"),
    Need("AlterPartitionReassignments", 45, 0, "2.4", "a stream's copies cannot change"),
    Need("ListPartitionReassignments", 46, 0, "2.4", "a stream's copies cannot change"),
)


def check_releases(name: str, brokers: Mapping[int, BrokerDescription]) -> list[Finding]:
    """Checks every broker's release, and whether the cluster finished its last upgrade.

    Args:
        name: Name of the findings.
        brokers: Brokers that answered, by number.
    """
    return [*_too_old(name, brokers), *_behind(name, brokers), *_missing(name, brokers)]


def _too_old(name: str, brokers: Mapping[int, BrokerDescription]) -> Sequence[Finding]:
    old: dict[str, list[int]] = {}
    for number, each in sorted(brokers.items()):
        level = each.supported.get(METADATA_VERSION)
        if level is not None and level < OLDEST_SUPPORTED_LEVEL:
            old.setdefault(release_text(level), []).append(number)
    remedy = f"upgrade to Kafka {OLDEST_SUPPORTED} or newer"
    return [
        Finding(
            name,
            "release",
            Level.FAIL,
            f"{_of(numbers)} {release}: not supported: no test runs on a release so old",
            remedy,
        )
        for release, numbers in old.items()
    ]


def _behind(name: str, brokers: Mapping[int, BrokerDescription]) -> Sequence[Finding]:
    """Checks for an unfinished upgrade: every broker knows a later release than the cluster agreed on."""
    agreed = [level for each in brokers.values() if (level := each.finalized.get(METADATA_VERSION))]
    known = [level for each in brokers.values() if (level := each.supported.get(METADATA_VERSION))]
    if not agreed or not known or release_text(max(agreed)) == release_text(min(known)) or max(agreed) > min(known):
        return ()
    target = release_text(min(known))
    message = f"brokers are {target}, features are those of {release_text(max(agreed))}: what came since is off"
    remedy = f"when you will not go back: kafka-features.sh upgrade --release-version {target.removeprefix('Kafka ')}"
    return [Finding(name, "features", Level.WARN, message, remedy)]


def _missing(name: str, brokers: Mapping[int, BrokerDescription]) -> Sequence[Finding]:
    found = []
    for need in NEEDS:
        lacking = [number for number, each in sorted(brokers.items()) if _lacks(each, need)]
        if lacking:
            message = f"{_of(lacking)} without {need.request} {need.version} (Kafka {need.since}): {need.purpose}"
            found.append(
                Finding(name, "requests", Level.FAIL, message, f"upgrade to Kafka {OLDEST_SUPPORTED} or newer")
            )
    return found


def _lacks(broker: BrokerDescription, need: Need) -> bool:
    if not broker.requests:
        return False
    oldest, newest = broker.requests.get(need.key, (1, 0))
    return not oldest <= need.version <= newest


def _of(numbers: Sequence[int]) -> str:
    return (
        f"broker{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))} {'are' if len(numbers) > 1 else 'is'}"
    )
