"""`move`, `cordon`, `uncordon`, and what is not built yet."""

import asyncio
import json

import pytest

from tests.unit.cli.mesh import Result, Shell, virtual


async def with_stream() -> Shell:
    """A stream on east that could go to west."""
    shell = await Shell().start("east", "west")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2", "--lane", "bulk=1")).code == 0
    await asyncio.sleep(1.0)
    return shell


@virtual
async def test_a_move_tells_what_went_where() -> None:
    shell = await with_stream()
    dry = await shell.braid("move", "stream", "logs", "--to", "west", "--lane", "live", "--dry-run")
    assert dry.out == (
        "stream/logs would move (dry run: nothing was changed)\n"
        "  live: logs/live/1 (east) → logs/live/2 (west)\n"
    )  # fmt: skip
    moved = await shell.braid("move", "stream", "logs", "--to", "west", "--lane", "live")
    assert moved.out == (
        "stream/logs moved\n"
        "  live: logs/live/1 (east) → logs/live/2 (west)\n"
        "watch the old channels drain: braid get channels logs -w\n"
    )
    again = await shell.braid("move", "stream", "logs", "--to", "west", "--lane", "live")
    assert again.out == "stream/logs unchanged: it is on west already\n"


@virtual
async def test_a_trial_is_told_in_percent_taken_back_and_completed() -> None:
    shell = await with_stream()
    live = ("move", "stream", "logs", "--to", "west", "--lane", "live", "--percent")
    dry = await shell.braid(*live, "10", "--dry-run")
    shares = "  live: logs/live/1 (east) 90 %, logs/live/2 (west) 10 %\n"
    assert dry.out == f"stream/logs would move (dry run: nothing was changed)\n{shares}"
    assert (await shell.braid(*live, "10")).out == f"stream/logs moved\n{shares}"
    again = await shell.braid(*live, "10")
    assert again.out == "stream/logs unchanged: its traffic is shared like that already\n"
    assert (await shell.braid(*live, "0")).out == (
        "stream/logs moved\n"
        "  live: logs/live/1 (east) 100 %, logs/live/2 drains\n"
        "watch the old channels drain: braid get channels logs -w\n"
    )
    await asyncio.sleep(5.0)
    done = (await shell.braid(*live, "100")).out.splitlines()
    assert done[1] == "  live: logs/live/3 (west) 100 %, logs/live/1 drains"


@virtual
async def test_a_lane_grows_and_shrinks_where_it_is() -> None:
    shell = await with_stream()
    grow = ("move", "stream", "logs", "--to", "east", "--lane", "live", "--partitions")
    dry = (await shell.braid(*grow, "5", "--dry-run")).out.splitlines()
    assert dry[1] == "  live: logs/live/1 (east) → a new channel of 5 partitions (east)"
    assert (await shell.braid(*grow, "5")).out.splitlines()[1] == "  live: logs/live/1 (east) → logs/live/3 (east)"
    assert "bulk=1,live=5" in (await shell.braid("get", "streams")).out
    await asyncio.sleep(5.0)
    assert (await shell.braid(*grow, "1")).code == 0
    assert "bulk=1,live=1" in (await shell.braid("get", "streams")).out


@virtual
async def test_a_spread_by_weight() -> None:
    shell = await with_stream()
    told = await shell.braid("move", "stream", "logs", "--spread", "east=3,west=1", "--lane", "live")
    assert told.out.splitlines()[1] == "  live: logs/live/1 (east) 75 %, logs/live/2 (west) 25 %"
    weights = json.loads((await shell.braid("get", "channels", "logs/live", "-o", "json")).out)["items"]
    assert [(each["cluster"], each["weight"]) for each in weights] == [("east", 3.0), ("west", 1.0)]


@virtual
async def test_a_proposed_move_is_shown_and_its_command_accepts_it() -> None:
    shell = await Shell().start("east", "west")
    declared = ("--lane", "live=1", "--clusters", "east,west", "--failover", "propose")
    assert (await shell.braid("create", "stream", "logs", *declared)).code == 0
    await asyncio.sleep(1.0)
    shell.kafka.named("east").kill()
    await asyncio.sleep(5.0)
    accept = "braid move stream logs --away-from east"
    for look in (("get", "streams", "-o", "wide"), ("doctor",)):
        assert accept in (await shell.braid(*look)).out
    assert "MoveProposed" in (await shell.braid("events", "--for", "stream/logs")).out
    assert "logs/live/1 (east) → logs/live/2 (west)" in (await shell.braid(*accept.split()[1:])).out
    assert accept not in (await shell.braid("get", "streams", "-o", "wide")).out
    assert "it is not on east already" in (await shell.braid(*accept.split()[1:])).out


@virtual
async def test_a_move_as_json() -> None:
    shell = await with_stream()
    moved = json.loads((await shell.braid("move", "stream", "logs", "--to", "west", "-o", "json")).out)
    assert [(each["lane"], each["to_cluster"]) for each in moved["moves"]] == [
        ("bulk", "west"),
        ("dlq", "west"),
        ("live", "west"),
    ]


@virtual
async def test_cordon_and_back() -> None:
    shell = await with_stream()
    assert (await shell.braid("cordon", "cluster", "east")).out == (
        "cluster/east cordoned; it still carries 3 channels: braid describe cluster east\n"
    )
    refused = await shell.braid("create", "stream", "other", "--lane", "live=1", "--clusters", "east")
    assert refused.code == 4
    assert await shell.braid("uncordon", "clusters", "east") == Result(0, "cluster/east uncordoned\n", "")


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("move stream logs --to wset", 4, "did you mean west?"),
        ("move stream lgos --to west", 4, "did you mean logs?"),
        ("move stream logs --to west --lane lvie", 2, "has no lane lvie"),
        ("move stream logs", 2, "--to"),
        ("move stream logs --to west --partitions 8", 2, "--lane live"),
        ("move stream logs --to west --lane live --partitions -1", 2, "partitions"),
        ("move stream logs --to west --spread east=1", 2, "one of --to, --away-from and --spread"),
        ("move stream logs --to west --away-from east", 2, "one of --to, --away-from and --spread"),
        ("move stream logs --away-from eas", 4, "did you mean east?"),
        ("move stream logs --away-from east --percent 10", 2, "a percentage is of a cluster"),
        ("move stream logs --spread east", 2, "is not CLUSTER=WEIGHT"),
        ("move stream logs --spread east=1,east=2", 2, "is not CLUSTER=WEIGHT"),
        ("move stream logs --spread east=1,wset=2", 4, "there is no cluster wset"),
        ("move stream logs --to west --percent 101", 2, "between 0 and 100"),
        ("move stream logs --to east --percent 10", 4, "is on no other cluster than east"),
        ("move cluster east --to west", 2, "knows no type 'cluster'"),
        ("cordon cluster wset", 4, "did you mean west?"),
        ("decommission cluster wset --yes", 4, "did you mean west?"),
        ("decommission cluster east", 2, "--yes to empty cluster east"),
        ("decommission stream logs --yes", 2, "knows no type 'stream'"),
        ("decommission cluster east --cancel --wait", 2, "--cancel"),
        ("reset group g --stream logs --to earliest --yes", 4, "there is no group 'g'"),
        ("get widgets", 2, "widgets"),
    ],
)
def test_bad_input_and_what_is_not_there_get_a_precise_error(line: str, code: int, told: str) -> None:
    @virtual
    async def scenario() -> None:
        shell = await with_stream()
        result = await shell.braid(*line.split())
        assert (result.code, result.out) == (code, "")
        assert told in result.err
        assert "Traceback" not in result.err

    scenario()
