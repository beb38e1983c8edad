"""Records are followed over two streams of a real mesh: the way is named, and latencies are true."""

import asyncio
import json
import time
from typing import Any, Final

import pytest

import braid
from braid.api.registry.v1.registry_service_pb2 import CreateStreamRequest
from braid.api.registry.v1.stream_pb2 import LaneSpec, Stream, StreamSpec
from devmesh.mesh import DevMesh
from testbed.patience import until
from tests.support.commands import printed
from tests.support.grounds import wait_healthy

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]

WAY: Final = "shop → bought → checkout → paid → ledger"
HANDLER_SECONDS: Final = 0.2
RECORDS: Final = 20


@pytest.fixture
def local(whole_mesh: DevMesh) -> DevMesh:
    """Two clusters and every service; all healthy."""
    wait_healthy(whole_mesh)
    return whole_mesh


async def test_a_way_over_two_streams_has_true_latencies(local: DevMesh) -> None:
    endpoint, taken = local.ready.endpoint, 0
    points: list[dict[str, Any]] = []
    began = time.monotonic()
    async with (
        braid.connect(endpoint, pathways="shop") as shop,
        braid.connect(endpoint, pathways="till") as till,
        braid.connect(endpoint, pathways="books") as books,
    ):
        for name in ("bought", "paid"):
            spec = StreamSpec(lanes={"live": LaneSpec(partitions=2)}, replication_factor=1)
            await shop.service("registry").unary("CreateStream", CreateStreamRequest(name=name, spec=spec), Stream)
        async with (
            shop.producer("bought") as bought,
            till.producer("paid") as paid,
            till.consumer(["bought"], group="checkout") as checkout,
            books.consumer(["paid"], group="ledger") as ledger,
        ):

            async def pay(record: braid.Record) -> None:
                await asyncio.sleep(HANDLER_SECONDS)
                await paid.send(record.value, key=record.key)

            async def book(record: braid.Record) -> None:
                nonlocal taken
                taken += 1

            handlers = [asyncio.create_task(checkout.run(pay)), asyncio.create_task(ledger.run(book))]
            for number in range(RECORDS):
                await bought.send(b"%d" % number, key=b"%d" % number)
            await until(lambda: taken >= RECORDS, "all records are booked")
            await until(lambda: way_of(local, points), lambda: f"the way is known: {points}")
        await asyncio.gather(*handlers)
    lasted_ms = (time.monotonic() - began) * 1000
    assert [each["service"] for each in points] == ["shop", "till", "till", "books"]
    # A sketch is true to 1 %, and no record took longer than all of this did.
    sent_on, booked = points[2:]
    assert 0.99 * HANDLER_SECONDS * 1000 <= sent_on["edge"]["p50_ms"] <= lasted_ms, points
    assert 0.99 * HANDLER_SECONDS * 1000 <= booked["full"]["p50_ms"] <= 1.01 * lasted_ms, points
    assert all(each["records_per_s"] > 0 for each in points)


async def way_of(mesh: DevMesh, points: list[dict[str, Any]]) -> bool:
    """Whether the way is known from its beginning to its end; fills in the points of what is known."""
    found = json.loads(await printed(mesh, "get pathways --stream paid -o json"))
    points[:] = [point for each in found["items"] for point in each["points"]]
    return WAY in [each["way"] for each in found["items"]]
