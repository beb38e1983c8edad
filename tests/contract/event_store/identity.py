"""The contract on who a store belongs to."""

import asyncio

from tests.contract.event_store.harness import EventStoreHarness, contract, eventually


@contract
async def a_store_has_one_mesh_id_whoever_asks_first(harness: EventStoreHarness) -> None:
    stores = [await harness.open() for _ in range(4)]
    ids = {*await asyncio.gather(*(each.mesh() for each in stores))}
    assert len(ids) == 1 and len(ids.pop()) == 26


@contract
async def a_restore_keeps_the_mesh_id(harness: EventStoreHarness) -> None:
    store = await harness.open()
    before = await store.mesh()
    await harness.restore()

    async def raised() -> bool:
        return await store.incarnation() == 2

    await eventually(raised)
    assert await store.mesh() == before
