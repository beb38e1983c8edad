"""The contract of `KafkaAdmin`: quotas of users and of their client ids are set, read, changed and removed."""

import asyncio
from collections.abc import Mapping
from typing import Final

import pytest

from braid.kernel.errors import Invalid
from braid.kernel.ports import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, QuotaEntity
from tests.contract.kafka.rig import ENOUGH_SECONDS, Body, Rig

_LONG: Final = "CN=shop,OU=a b,O=Example \u00e9"


async def quotas_are_set_read_changed_and_removed(rig: Rig) -> None:
    shop, batch = QuotaEntity(f"{rig.prefix}-shop"), QuotaEntity(f"{rig.prefix}-shop", "batch")
    other = QuotaEntity(f"{rig.prefix}-other")
    assert await rig.admin.client_quotas([shop.user]) == {}
    await rig.admin.alter_client_quotas(shop, {PRODUCER_BYTE_RATE: 1_000_000, REQUEST_PERCENTAGE: 12.5})
    await rig.admin.alter_client_quotas(batch, {CONSUMER_BYTE_RATE: 1 << 40})
    await rig.admin.alter_client_quotas(other, {PRODUCER_BYTE_RATE: 7})
    both = {
        shop: {PRODUCER_BYTE_RATE: 1_000_000.0, REQUEST_PERCENTAGE: 12.5},
        batch: {CONSUMER_BYTE_RATE: float(1 << 40)},
    }
    await _told(rig, [shop.user], both)
    await _told(rig, [other.user, shop.user], {**both, other: {PRODUCER_BYTE_RATE: 7.0}})
    await rig.admin.alter_client_quotas(shop, {PRODUCER_BYTE_RATE: 5, REQUEST_PERCENTAGE: None})
    await rig.admin.alter_client_quotas(batch, {CONSUMER_BYTE_RATE: None})
    await _told(rig, [shop.user], {shop: {PRODUCER_BYTE_RATE: 5.0}})
    await rig.admin.alter_client_quotas(shop, {PRODUCER_BYTE_RATE: None})
    await _told(rig, [shop.user], {})


async def a_repeated_change_or_removal_changes_nothing(rig: Rig) -> None:
    user = QuotaEntity(f"{rig.prefix}-{_LONG}")
    for _ in range(2):
        await rig.admin.alter_client_quotas(user, {PRODUCER_BYTE_RATE: 100})
        await _told(rig, [user.user], {user: {PRODUCER_BYTE_RATE: 100.0}})
    for _ in range(2):
        await rig.admin.alter_client_quotas(user, {PRODUCER_BYTE_RATE: None, CONSUMER_BYTE_RATE: None})
        await _told(rig, [user.user], {})


async def a_quota_out_of_form_is_refused_and_changes_nothing(rig: Rig) -> None:
    user = QuotaEntity(f"{rig.prefix}-wrong")
    await rig.admin.alter_client_quotas(user, {PRODUCER_BYTE_RATE: 100})
    for changes in ({PRODUCER_BYTE_RATE: 0}, {PRODUCER_BYTE_RATE: -1}, {CONSUMER_BYTE_RATE: 1.5}, {"bytes": 1}):
        with pytest.raises(Invalid):
            await rig.admin.alter_client_quotas(user, changes)
    await _told(rig, [user.user], {user: {PRODUCER_BYTE_RATE: 100.0}})


async def _told(rig: Rig, users: list[str], expected: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
    """Waits until the cluster tells so: a broker learns of what was changed a moment after the answer."""
    async with asyncio.timeout(ENOUGH_SECONDS):
        while (found := await rig.admin.client_quotas(users)) != expected:
            print(found)
            await asyncio.sleep(0.05)


BODIES: Final[list[Body]] = [
    quotas_are_set_read_changed_and_removed,
    a_repeated_change_or_removal_changes_nothing,
    a_quota_out_of_form_is_refused_and_changes_nothing,
]
