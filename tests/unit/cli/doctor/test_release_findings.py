"""`doctor` names releases that are too old, upgrades that were not finished, and requests that are not answered."""

import pytest

from braid.cli.doctor.findings import Finding, Level
from braid.cli.doctor.release_findings import NEEDS, check_releases
from braid.cli.doctor.releases import METADATA_VERSION
from braid.kernel.ports import BrokerDescription

ALL = {need.key: (0, need.version) for need in NEEDS}


def broker(
    supported: int = 30, finalized: int = 30, requests: dict[int, tuple[int, int]] | None = None
) -> BrokerDescription:
    """A broker of a release."""
    told = ALL if requests is None else requests
    return BrokerDescription({}, {METADATA_VERSION: finalized}, {METADATA_VERSION: supported}, told)


def found(*brokers: BrokerDescription) -> list[Finding]:
    return check_releases("cluster/east", dict(enumerate(brokers, 1)))


@pytest.mark.parametrize("level", [15, 19, 21, 22, 30, 33])
def test_releases_that_are_played_are_fine(level: int) -> None:
    assert found(broker(level, level), broker(level, level)) == []
    assert found(BrokerDescription({})) == []  # one that says nothing is not judged


@pytest.mark.parametrize(("level", "release"), [(14, "Kafka 3.6"), (4, "Kafka 3.3"), (1, "Kafka 3.0")])
def test_an_older_release_is_named_with_its_brokers(level: int, release: str) -> None:
    (finding,) = found(broker(level, level), broker(level, level))
    assert (finding.check, finding.level) == ("release", Level.FAIL)
    assert finding.message.startswith(f"brokers 1, 2 are {release}: not supported")
    assert finding.remedy == "upgrade to Kafka 3.7 or newer"


def test_an_unfinished_upgrade_is_reported_once_brokers_allow_it() -> None:
    (finding,) = found(broker(30, 19), broker(33, 19))
    assert (finding.check, finding.level) == ("features", Level.WARN)
    assert finding.message.startswith("brokers are Kafka 4.3, features are those of Kafka 3.7")
    assert finding.remedy.endswith("kafka-features.sh upgrade --release-version 4.3")
    assert found(broker(19, 19), broker(33, 19)) == []  # one is still to be upgraded, which `releases` tells


@pytest.mark.parametrize("need", NEEDS, ids=lambda need: need.request)
def test_a_request_that_a_broker_does_not_answer_is_named(need: object) -> None:
    assert need in NEEDS
    missing = next(each for each in NEEDS if each == need)
    for lacking in (
        {key: versions for key, versions in ALL.items() if key != missing.key},
        {**ALL, missing.key: (0, missing.version - 1)},
        {**ALL, missing.key: (missing.version + 1, missing.version + 4)},  # a later release dropped it
    ):
        (finding,) = found(broker(), broker(requests=lacking))
        assert (finding.check, finding.level) == ("requests", Level.FAIL)
        assert finding.message.startswith(f"broker 2 is without {missing.request} {missing.version}")
        assert finding.remedy
