"""A refused login is not tried again at once, by any client of the cluster; all else is."""

import asyncio

from braid.kafka.refusals import Refusals
from braid.kernel.errors import ClusterAccessDenied
from braid.kernel.limits.kafka import KAFKA_DENIED_SECONDS, KAFKA_REFUSALS_MAX
from tests.support.virtual_time import run_virtual

EAST, WEST = ("east", 9093), ("west", 9093)


def denied(access: str = "authentication") -> ClusterAccessDenied:
    """A broker's refusal."""
    return ClusterAccessDenied("name or password are wrong", metadata={"access": access, "problem": "credentials"})


def test_a_refusal_stands_for_its_time_and_for_its_address() -> None:
    async def scene() -> None:
        refusals = Refusals()
        refusals.note(EAST, denied())
        await asyncio.sleep(KAFKA_DENIED_SECONDS * 0.9)
        standing = refusals.standing(EAST)
        assert standing is not None and standing.problem == "credentials"
        assert refusals.standing(WEST) is None
        await asyncio.sleep(KAFKA_DENIED_SECONDS * 0.2)
        assert refusals.standing(EAST) is None

    run_virtual(scene())


def test_missing_permissions_and_withheld_profiles_do_not_stand() -> None:
    async def scene() -> None:
        refusals = Refusals()
        for access in ("authorization", "withheld"):
            refusals.note(EAST, denied(access))
        assert refusals.standing(EAST) is None

    run_virtual(scene())


def test_no_more_addresses_are_kept_than_a_cluster_has() -> None:
    async def scene() -> None:
        refusals = Refusals()
        for number in range(KAFKA_REFUSALS_MAX + 1):
            refusals.note(("broker", number), denied())
        assert len(refusals._refused) <= KAFKA_REFUSALS_MAX
        assert refusals.standing(("broker", KAFKA_REFUSALS_MAX)) is not None

    run_virtual(scene())
