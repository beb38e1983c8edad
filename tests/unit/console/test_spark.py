"""The Spark page over a mesh: queries among members of other kinds, and the lag of their groups alone."""

import io

from braid.api.lagmon.v1 import lag_pb2
from braid.cli.core.terminal import Terminal
from braid.client.consumer_settings import ConsumerSettings
from braid.client.planning.planner import PlannerSession
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual


@virtual
async def test_spark_shows_queries_with_the_lag_of_their_groups_alone() -> None:
    shell = await Shell().start("east")
    await shell.replica("lagmon-0")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    shell.lagmon.rows = [
        lag_pb2.Lag(group=name, stream="logs", lane="live", lag_seconds=3.5) for name in ("table", "other")
    ]
    browser = await ConsoleMesh(shell).signed_in()
    assert (await browser.get("/api/views/spark")).json["parts"]["jobs"]["rows"] == []
    async with shell.session(Terminal(io.StringIO(), io.StringIO(), {})) as session:
        query = PlannerSession(session.mesh, ConsumerSettings(streams=("logs",), group="table"))
        await query.open()
        await shell.until(lambda: len(query.held) == 2)
        async with session.mesh.consumer(["logs"], group="other"):
            parts = (await (await ConsoleMesh(shell).signed_in()).get("/api/views/spark")).json["parts"]
        await query.close()
    assert [(row["group"], row["leases"], row["spark"]) for row in parts["jobs"]["rows"]] == [("table", 2, True)]
    assert [row["key"] for row in parts["lag"]["rows"]] == ["table/logs/live"]
