"""`move --wait`: what it says while the old channels drain, when it ends, and when it gives up."""

import asyncio
import json

from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.traffic.test_verbs import produce

TO_WEST = ("move", "stream", "logs", "--to", "west", "--lane", "live")


async def with_stream() -> Shell:
    """A stream on east that could go to west."""
    shell = await Shell().start("east", "west")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    await asyncio.sleep(1.0)
    return shell


@virtual
async def test_it_ends_when_the_old_channels_are_drained() -> None:
    shell = await with_stream()
    moved = await shell.braid(*TO_WEST, "--wait")
    assert moved.code == 0, moved
    lines = moved.out.splitlines()
    assert lines[1] == "  live: logs/live/1 (east) → logs/live/2 (west)"
    assert lines[-1] == "stream/logs drained: logs/live/1"
    channels = json.loads((await shell.braid("get", "channels", "logs/live/1", "-o", "json")).out)
    assert "drained" in json.dumps(channels)


@virtual
async def test_it_says_who_holds_a_drain_and_gives_up_in_time() -> None:
    shell = await with_stream()
    assert (await produce(shell, b"1\n2\n3\n")).code == 0
    assert (await shell.braid("consume", "logs", "--group", "slow", "--from", "earliest", "--max", "1")).code == 0
    late = await shell.braid(*TO_WEST, "--wait", "--timeout", "20")
    assert late.code == 3
    waits = "logs/live/1 (east) waits for groups slow"
    assert f"stream/logs {waits}" in late.out
    assert waits in late.err and "the drain goes on" in late.err
    again = await shell.braid(*TO_WEST, "--wait", "--timeout", "5")
    assert again.code == 3 and waits in again.err, "it is moved already, and waited for again"
    assert (await shell.braid("consume", "logs", "--group", "slow", "--max", "2")).code == 0
    ended = await shell.braid(*TO_WEST, "--wait")
    assert ended.code == 0 and ended.out.endswith("stream/logs drained: logs/live/1\n")
    assert (await shell.braid(*TO_WEST, "--wait")).out.endswith("stream/logs has nothing to drain\n")


@virtual
async def test_a_stranded_channel_is_said_to_wait_for_its_cluster() -> None:
    shell = await with_stream()
    shell.kafka.named("east").kill()
    await asyncio.sleep(5.0)
    late = await shell.braid(*TO_WEST, "--wait", "--timeout", "3")
    assert late.code == 3 and "logs/live/1 (east) waits for cluster east" in late.err


@virtual
async def test_a_dry_run_and_a_trial_wait_for_nothing() -> None:
    shell = await with_stream()
    assert "drain" not in (await shell.braid(*TO_WEST, "--wait", "--dry-run")).out
    trial = await shell.braid(*TO_WEST, "--percent", "10", "--wait")
    assert trial.code == 0 and trial.out.endswith("stream/logs has nothing to drain\n")


@virtual
async def test_what_is_said_meanwhile_stays_out_of_the_document() -> None:
    shell = await with_stream()
    moved = await shell.braid(*TO_WEST, "--wait", "-o", "json")
    assert json.loads(moved.out)["moves"][0]["to_cluster"] == "west"
    assert moved.err.endswith("braid: stream/logs drained: logs/live/1\n")
