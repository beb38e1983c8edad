"""`drill` refuses what it cannot play, asks before it begins, and removes what killed drills left behind."""

import asyncio

import pytest

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1 import stream_pb2
from braid.cli.drill.verbs import parse_seconds
from braid.kernel.errors import Invalid
from tests.unit.cli.mesh import Result, Shell, virtual

YES = ("--yes", "--endpoint", "registry-0:1")


async def with_logs(*clusters: str) -> Shell:
    shell = await Shell().start(*clusters)
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    return shell


def refused(result: Result, code: int, *said: str) -> None:
    assert result.code == code, result
    assert all(each in result.err for each in (*said, "try:")), result.err


async def abandoned(shell: Shell, name: str) -> None:
    """A drill's stream whose drill was killed."""
    spec = stream_pb2.StreamSpec(lanes={"live": stream_pb2.LaneSpec(partitions=1)})
    spec.drill.CopyFrom(stream_pb2.Drill(stream="logs", kind=stream_pb2.DRILL_KIND_MOVE, cluster="east", broker=-1))
    async with shell.session(None) as session:  # type: ignore[arg-type]
        request = api.CreateStreamRequest(name=name, spec=spec)
        await session.service("registry").unary("CreateStream", request, stream_pb2.Stream)


@virtual
async def test_what_cannot_be_played_is_refused_with_what_to_do() -> None:
    shell = await with_logs("east")
    refused(await shell.braid("drill", "move", "--stream", "logs"), 2, "--yes", "repeat it with --yes")
    refused(await shell.braid("drill", "move", "--stream", "logs", "--for", "soon", *YES), 2, "--for", "60s")
    refused(await shell.braid("drill", "move", "--stream", "logs", "--for", "1s", *YES), 2, "--for", "3s")
    refused(await shell.braid("drill", "move", "--stream", "lugs", *YES), 4, "no stream lugs", "did you mean logs?")
    for kind in ("move", "cluster-loss"):
        told = await shell.braid("drill", kind, "--stream", "logs", *YES)
        refused(told, 4, "may be on cluster east alone", "member-loss")
    broker = ("drill", "broker-loss", "--stream", "logs", *YES, "--broker")
    shell.kafka.add_cluster("west")
    assert (await shell.braid("create", "cluster", "west", "--bootstrap", "west:9092")).code == 0
    refused(await shell.braid(*broker, "7"), 2, "--broker", "7 is no broker of cluster east")
    refused(await shell.braid(*broker, "1"), 2, "one broker", "cluster-loss")
    assert (await shell.braid("get", "streams", "-o", "name")).out == "stream/logs\n"


@virtual
async def test_what_a_killed_drill_left_is_found_by_mark_and_removed() -> None:
    shell = await with_logs("east", "west")
    assert (await shell.braid("create", "stream", "drill-mine", "--lane", "live=1")).code == 0
    assert (await shell.braid("drill", "clean", "--yes")).out == "no drill was left behind\n"
    await abandoned(shell, "drill-old")
    refused(await shell.braid("drill", "clean"), 2, "--yes")
    cleaned = await shell.braid("drill", "clean", "--yes")
    assert cleaned.code == 0
    assert "removed stream and group drill-old" in cleaned.err
    assert (await shell.braid("get", "streams", "-o", "name")).out == "stream/drill-mine\nstream/logs\n"
    told = (await shell.braid("events", "--for", "stream/drill-old")).out
    assert "DrillBegan" in told and "DrillEnded" in told
    await asyncio.sleep(1.0)


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60.0), ("5m", 300.0), ("1h", 3_600.0)])
def test_lengths_of_time_are_read(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "60", "-1s", "1.5s", "1d", "9999999s"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        parse_seconds(text)
