"""`get lag`: tables, documents, watching, and what makes the numbers doubtful."""

import asyncio
import json

import pytest

from braid.api.lagmon.v1 import lag_pb2
from braid.cli.resources.lag.listing import state_text
from tests.unit.cli.mesh import Result, Shell, virtual
from tests.unit.cli.resources.dlq.test_rejected import user


def lag(group: str, stream: str, lane: str, **fields: object) -> lag_pb2.Lag:
    """A row of a lane; by its envelope unless said otherwise."""
    known: dict[str, object] = {"partition": -1, "partitions": 4, "source": lag_pb2.LAG_SOURCE_ENVELOPE, **fields}
    return lag_pb2.Lag(group=group, stream=stream, lane=lane, **known)  # type: ignore[arg-type]


async def with_lagmon(*rows: lag_pb2.Lag) -> Shell:
    """A mesh whose lagmon knows some rows."""
    shell = await Shell().start("east")
    await shell.replica("lagmon-0")
    await asyncio.sleep(1.0)  # until every directory has it
    shell.lagmon.rows = list(rows)
    return shell


@virtual
async def test_the_table_is_golden() -> None:
    estimate, unknown = lag_pb2.LAG_SOURCE_ESTIMATE, lag_pb2.LAG_SOURCE_UNKNOWN
    shell = await with_lagmon(
        lag("indexer", "logs", "bulk", lag_records=0, source=lag_pb2.LAG_SOURCE_DONE),
        lag("indexer", "logs", "live", lag_records=12_345, lag_seconds=3.14, stale=True),
        lag("indexer", "logs", "slow", lag_records=9, lag_seconds=2.0, source=unknown),
        lag("legacy", "", "", lag_records=70, lag_seconds=41.0, source=estimate, foreign=True),
    )
    assert await shell.braid("get", "lag") == Result(
        0,
        "NAME               RECORDS  SECONDS  STATE    COMMIT\n"
        "indexer/logs/bulk  0        0.0      OK       -\n"
        "indexer/logs/live  12,345   3.1      STALE    -\n"
        "indexer/logs/slow  9        ≥2.0     OK       -\n"
        "legacy             70       ~41.0    foreign  -\n",
        "",
    )
    assert (await shell.braid("get", "lag", "legacy", "-o", "name")).out == "lag/legacy\n"
    assert (await shell.braid("get", "lag", "--stream", "logs", "-o", "name")).out.count("\n") == 3
    one = await shell.braid("get", "lag", "indexer/logs/live", "-o", "name")
    assert one.out == "lag/indexer/logs/live\n"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, "OK"),
        ({"lag_records": 9, "lag_seconds": 59.9}, "OK"),
        ({"lag_records": 9, "lag_seconds": 60.0}, "BEHIND"),
        ({"lag_records": 0, "lag_seconds": 60.0}, "OK"),
        ({"lag_records": 9, "lag_seconds": 0.1, "unattended": True}, "NO MEMBER"),
        ({"lag_records": 9, "lag_seconds": 277.0, "unattended": True}, "NO MEMBER"),
        ({"lag_records": 0, "unattended": True}, "OK"),
        ({"lag_records": 9, "lag_seconds": 277.0, "unattended": True, "stale": True}, "NO MEMBER,STALE"),
        ({"lag_records": 9, "lag_seconds": 277.0, "foreign": True}, "BEHIND,foreign"),
    ],
)
def test_a_rows_state_says_unattended_or_behind(fields: dict[str, object], state: str) -> None:
    assert state_text(lag("indexer", "logs", "live", **fields)) == state


@virtual
async def test_channels_and_partitions_have_names_and_clusters() -> None:
    channel = lag("indexer", "logs", "live", cluster="east", topic="braid.logs.live.2")
    outside = lag("legacy", "", "", cluster="west", topic="orders", foreign=True)
    parts = {"partition": 3, "partitions": 1, "committed_offset": 7, "end_offset": 9, "epoch": 5}
    shell = await with_lagmon(channel, outside, lag("indexer", "logs", "live", topic="p.logs.live.2", **parts))
    lines = (await shell.braid("get", "lag", "--detail", "partition")).out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == [
        *("indexer/logs/live/2", "legacy/west:orders", "indexer/logs/live/2/3")
    ]
    assert lines[0].split()[1] == "CLUSTER"
    assert shell.lagmon.asked[-1].detail == lag_pb2.LAG_DETAIL_PARTITION
    wide = (await shell.braid("get", "lag", "--detail", "partition", "-o", "wide")).out.splitlines()
    assert wide[3].split()[5:] == ["envelope", "1", "7", "9", "5", "-"]


@virtual
async def test_a_split_partition_s_live_lag_is_beside_its_backlog_s() -> None:
    shell = await with_lagmon(lag("g", "logs", "live", lag_seconds=5_000.0, split_partitions=1, live_lag_seconds=0.34))
    (row,) = (await shell.braid("get", "lag")).out.splitlines()[1:]
    assert "5000.0" in row and "split (live 0.3)" in row


@virtual
async def test_json_is_stable_and_pages_are_joined() -> None:
    shell = await with_lagmon(*(lag(f"g{number:03}", "logs", "live", lag_records=number) for number in range(25)))
    shell.lagmon.page_rows = 10
    items = json.loads((await shell.braid("get", "lag", "-o", "json")).out)["items"]
    assert [each["lag_records"] for each in items] == list(range(25))
    assert list(items[0]) == [
        *("apiVersion", "kind", "name", "group", "stream", "lane", "cluster", "topic", "partition", "partitions"),
        *("lag_records", "lag_seconds", "source", "foreign", "stale", "as_of_ms", "committed_offset", "end_offset"),
        *("epoch", "detached", "commit_time_ms", "split_partitions", "live_lag_seconds", "unattended"),
    ]
    assert (items[0]["kind"], items[0]["name"], items[0]["source"]) == ("Lag", "g000/logs/live", "envelope")


@virtual
async def test_a_watch_prints_rows_that_change_and_rows_that_go() -> None:
    shell = await with_lagmon(lag("a", "logs", "live", lag_records=1), lag("b", "logs", "live"))

    async def later() -> None:
        await asyncio.sleep(1.0)
        shell.lagmon.rows[0].lag_records = 2
        await asyncio.sleep(1.0)
        del shell.lagmon.rows[1]

    changing = asyncio.ensure_future(later())
    result = await shell.braid("get", "lag", "-w", seconds=4.0)
    await changing
    assert (result.code, result.err) == (0, "")
    assert [line.split()[:2] for line in result.out.splitlines()] == [
        ["NAME", "RECORDS"],
        ["a/logs/live", "1"],
        ["b/logs/live", "0"],
        ["a/logs/live", "2"],
        ["b/logs/live", "gone"],
    ]
    assert len({line.rindex(" 0.0 ") for line in result.out.splitlines() if " 0.0 " in line}) == 1
    lines = (await shell.braid("get", "lag", "a", "-w", "-o", "json", seconds=1.0)).out.splitlines()
    assert [json.loads(line)["lag_records"] for line in lines] == [2]


@virtual
async def test_a_watch_outlives_its_lagmon_and_reports_what_it_missed() -> None:
    shell = await with_lagmon(lag("a", "logs", "live"), lag("b", "logs", "live"))
    await shell.replica("lagmon-1")
    await asyncio.sleep(1.0)

    async def later() -> None:
        await asyncio.sleep(1.0)
        shell.lagmon.rows = [lag("a", "logs", "live", lag_records=5)]
        shell.kill("lagmon-0")

    changing = asyncio.ensure_future(later())
    result = await shell.braid("get", "lag", "-w", seconds=20.0)
    await changing
    assert [line.split()[:2] for line in result.out.splitlines()[3:]] == [["a/logs/live", "5"], ["b/logs/live", "gone"]]


@virtual
async def test_a_silent_lagmon_is_asked_again() -> None:
    shell = await with_lagmon(lag("a", "logs", "live"))

    async def later() -> None:
        await asyncio.sleep(1.0)
        shell.lagmon.silent = True
        shell.lagmon.rows = [lag("a", "logs", "live", lag_records=5)]

    changing = asyncio.ensure_future(later())
    result = await shell.braid("get", "lag", "-w", seconds=10.0)
    await changing
    assert result.out.splitlines()[-1].split()[:2] == ["a/logs/live", "5"]


@virtual
async def test_what_may_be_missing_is_said() -> None:
    shell = await with_lagmon()
    shell.lagmon.catching_up = ["west", "east"]
    result = await shell.braid("get", "lag")
    assert (result.code, result.out) == (0, "")
    assert "offsets of east, west are still being read: rows may be missing" in result.err
    assert "no group consumes anything yet" in result.err


@virtual
async def test_a_group_that_has_just_begun_is_waited_for() -> None:
    shell = await with_lagmon()
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    await asyncio.sleep(2.0)
    async with user(shell, "app") as mesh, mesh.consumer(["logs"], group="indexer"):
        never = await shell.braid("get", "lag", "indexer")
        assert (never.code, never.out) == (4, "") and "no lag is known of group indexer" in never.err
        asking = asyncio.ensure_future(shell.braid("get", "lag", "indexer"))
        await asyncio.sleep(2.0)
        shell.lagmon.rows = [lag("indexer", "logs", "live", lag_records=7)]
        found = await asking
        assert found.code == 0 and found.out.splitlines()[1].split()[:2] == ["indexer/logs/live", "7"]


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("get lag indxer", 4, "did you mean indexer?"),
        ("get lag nobody", 4, "list those that have: braid get lag"),
        ("get lag --detail lanes", 2, "did you mean lane?"),
        ("get lag --detail x", 2, "use lane, channel, partition"),
        ("get streams --detail lane", 2, "it goes with lag"),
        ("get lag --where error=x", 2, "it goes with deadletters"),
        ("describe lag indexer", 2, "knows no type 'lag'"),
    ],
)
def test_bad_input(line: str, code: int, told: str) -> None:
    @virtual
    async def scenario() -> None:
        shell = await with_lagmon(lag("indexer", "logs", "live"))
        result = await shell.braid(*line.split())
        assert (result.code, result.out) == (code, "")
        assert told in result.err

    scenario()


@virtual
async def test_without_a_lagmon() -> None:
    shell = await Shell().start("east")
    result = await shell.braid("get", "lag")
    assert (result.code, result.out) == (3, "")
    assert "lagmon" in result.err
