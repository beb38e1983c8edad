"""Stages of a takeover: each in its order, none made up."""

from bench.harness.takeover_stages import HANDLED, TOLD, stages_of
from testbed.members.telling_member import MemberEvent

AT = 1_000.4
DECIDED = [
    (900.0, "MemberGone"),
    (905.0, "LeasesGranted"),
    (1_004.0, "MemberGone"),
    (1_004.0, "LeasesReleased"),
    (1_009.0, "GenerationBumped"),
    (1_010.0, "LeasesGranted"),
    (1_500.0, "LeasesGranted"),
]


def granted(ms: float, lease: str) -> MemberEvent:
    """A survivor was given a lease."""
    return MemberEvent(ms, "granted", "g", lease, 1)


def began(ms: float, partition: int) -> MemberEvent:
    """A survivor's handler began with a record."""
    return MemberEvent(ms, "began", "g", f"braid.logs.live.1/{partition}")


def test_each_stage_counts_from_the_kill() -> None:
    told = [
        began(1_001.0, 0),
        began(1_002.0, 5),
        granted(1_020.4, "logs/live/1/5"),
        began(1_030.4, 0),
        began(1_050.4, 5),
    ]
    found = stages_of(AT, DECIDED, told)
    assert {name: round(ms, 1) for name, ms in found.items()} == {
        "loss decided": 3.6,
        "new generation made": 8.6,
        "grant decided": 9.6,
        TOLD: 20.0,
        HANDLED: 50.0,
    }


def test_a_takeover_without_all_of_its_stages_has_none() -> None:
    told = [granted(1_020.4, "logs/live/1/5"), began(1_050.4, 5)]
    assert stages_of(AT, DECIDED, told)
    assert stages_of(AT, DECIDED, told[:1]) == {}
    assert stages_of(AT, DECIDED, []) == {}
    assert stages_of(AT, DECIDED[:4], told) == {}
    assert stages_of(AT, [], told) == {}
