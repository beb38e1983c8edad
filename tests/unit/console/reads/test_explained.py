"""Why a lease is here, with what of its partition is done, rejected and retried: as far as a replica tells."""

from typing import cast

from braid.api.lagmon.v1.lag_pb2 import Lag
from braid.api.lagmon.v1.progress_pb2 import OffsetSpan, Progress, RetriedRecord
from braid.kernel.errors import AccessDenied, Unavailable
from braid.rpc.documents import Document
from console.server.reads.assigner import explained
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
