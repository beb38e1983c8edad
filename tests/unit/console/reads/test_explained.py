"""Why a lease is here, with what of its partition is done, rejected and retried: as far as a replica tells."""

from typing import cast

from braid.api.lagmon.v1.lag_pb2 import Lag
from braid.api.lagmon.v1.progress_pb2 import OffsetSpan, Progress, RetriedRecord
from braid.kernel.errors import AccessDenied, Unavailable
from braid.rpc.documents import Document
from console.server.reads.lease import explained
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual

LEASE = "logs/live/1/0"


async def consumed(partitions: int) -> Shell:
    """A mesh with a stream that group `g` has consumed."""
    shell = await Shell().start("east")
    await shell.replica("lagmon-0")
    assert (await shell.braid("create", "stream", "logs", "--lane", f"live={partitions}")).code == 0
    assert (await shell.braid("consume", "logs", "--group", "g", "--timeout", "2")).code == 0
    return shell


@virtual
async def test_a_lease_is_explained_with_its_progress() -> None:
    shell = await consumed(partitions=1)
    reads = ConsoleMesh(shell).reader()
    assert (await explained(reads, LEASE, "", 0))["progress"] is None, "nothing is committed"
    shell.lagmon.progress = Progress(
        committed_offset=4, has_envelope=True, done=[OffsetSpan(first=6, last=8)], retried=[RetriedRecord(offset=5)]
    )
    told = cast("Document", (await explained(reads, LEASE, "", 0))["progress"])
    assert (told["group"], told["committed_offset"], told["done"]) == ("g", 4, [{"first": 6, "last": 8}])
    now_ms = shell.me.host.clock.now_ms()
    await shell.me.host.clock.sleep(1.0)
    assert (await explained(reads, LEASE, "", now_ms))["progress"] is None, "nobody keeps it"
    for trouble in (Unavailable("away"), AccessDenied("no")):
        shell.lagmon.progress = trouble
        found = await explained(reads, LEASE, "", 0)
        assert found["progress"] is None and found["reasons"], "the lease is explained all the same"
    await reads.close()


@virtual
async def test_a_lease_is_explained_with_its_lag() -> None:
    shell = await consumed(partitions=2)
    reads = ConsoleMesh(shell).reader()
    assert (await explained(reads, LEASE, "", 0))["lag"] is None, "lagmon knows none"
    shell.lagmon.rows = [
        Lag(group="g", stream="logs", lane="live", cluster="east", topic=topic, partition=each, lag_records=3 + each)
        for topic in ("braid.logs.live.2", "braid.logs.live.1")
        for each in (1, 0)
    ]
    told = cast("Document", (await explained(reads, LEASE, "", 0))["lag"])
    assert (told["partition"], told["lag_records"], told["key"]) == (0, 3, "g/logs/live/east/braid.logs.live.1/0")
    now_ms = shell.me.host.clock.now_ms()
    await shell.me.host.clock.sleep(1.0)
    assert (await explained(reads, LEASE, "", now_ms))["lag"] is None, "lag is that of now"
    await reads.close()


def lag_of(partition: int, records: int) -> Lag:
    """The lag of a partition that group `g` reads."""
    topic = "braid.logs.live.1"
    return Lag(
        group="g", stream="logs", lane="live", cluster="east", topic=topic, partition=partition, lag_records=records
    )


@virtual
async def test_the_page_of_a_lease_follows_its_partition_alone() -> None:
    shell = await consumed(partitions=2)
    shell.lagmon.rows = [lag_of(0, 3), lag_of(1, 30)]
    browser = await ConsoleMesh(shell).signed_in()
    async with browser.stream(f"/api/live/lease?lease={LEASE}") as stream:
        parts = (await stream.next("snapshot")).data["parts"]
        assert parts["explained"]["value"]["lease"]["group"] == "g" and parts["explained"]["value"]["reasons"]
        assert (parts["lease_lag"]["value"]["lag_records"], parts["progress"]["value"]) == (3, None)
        shell.lagmon.rows = [lag_of(0, 4), lag_of(1, 31)]
        shell.lagmon.progress = Progress(committed_offset=4)
        lag, progress = 0, None
        while lag != 4 or progress is None:
            change = (await stream.next("delta")).data["parts"]
            assert "value" not in change.get("explained", {}), "the steps are the same"
            lag = change.get("lease_lag", {}).get("value", {}).get("lag_records", lag)
            progress = change.get("progress", {}).get("value", progress)
        shell.lagmon.refusal = Unavailable("away")
        while not change.get("lease_lag", {}).get("stale"):
            change = (await stream.next("delta")).data["parts"]
            assert not change.get("explained", {}).get("stale")
        assert "value" not in change["lease_lag"], "the last lag stays"


@virtual
async def test_the_page_of_an_unknown_lease_says_so() -> None:
    shell = await consumed(partitions=1)
    browser = await ConsoleMesh(shell).signed_in()
    parts = (await browser.get("/api/views/lease?lease=logs/live/1/7&group=g")).json["parts"]
    assert parts["explained"]["error"]["status"] == 404
    assert parts["lease_lag"]["value"] is None and not parts["lease_lag"]["error"]


@virtual
async def test_the_page_of_a_lease_in_the_past_has_no_lag() -> None:
    shell = await consumed(partitions=1)
    browser = await ConsoleMesh(shell).signed_in()
    now_ms = shell.me.host.clock.now_ms()
    await shell.me.host.clock.sleep(1.0)
    parts = (await browser.get(f"/api/views/lease?lease={LEASE}&at_ms={now_ms}")).json["parts"]
    assert parts["explained"]["value"]["lease"]["name"] == LEASE
    assert {parts[name]["error"]["reason"] for name in ("lease_lag", "progress")} == {"HISTORY_HOLE"}
