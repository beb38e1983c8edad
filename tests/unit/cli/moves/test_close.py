"""`close` ends a channel whose records are gone by naming them, and by nothing less; `release` gives order up."""

import asyncio
import json

from tests.unit.cli.mesh import Shell, virtual


async def with_a_lost_channel(*flags: str) -> Shell:
    """A stream that failed over to west; east came back as another cluster, without its records."""
    shell = await Shell().start("east", "west")
    create = ("create", "stream", "logs", "--lane", "live=2", "--clusters", "east,west", *flags)
    assert (await shell.braid(*create)).code == 0
    await asyncio.sleep(1.0)
    east = shell.kafka.named("east")
    east.kill()
    await asyncio.sleep(5.0)
    east.empty()
    east.start()
    await asyncio.sleep(60.0)
    return shell


@virtual
async def test_every_command_shows_a_loss_and_closing_must_name_it() -> None:
    shell = await with_a_lost_channel()
    waiting = (await shell.braid("get", "channels", "logs/live", "-o", "wide")).out
    assert "a person: 0:0-,1:0- lost; braid close channel logs/live/1 --dry-run" in waiting
    assert "LOST" in (await shell.braid("get", "streams")).out
    told = (await shell.braid("events", "--for", "stream/logs", "-o", "json")).out
    assert '"RecordsLost"' in told and "its cluster was east-1, now east-2 answers there" in told
    doctor = (await shell.braid("doctor")).out
    assert "logs/live/1 on cluster east: 0:0-,1:0-" in doctor
    close = ("close", "channel", "logs/live/1")
    dry = await shell.braid(*close, "--dry-run")
    named = (*close, "--accept-loss", "0:0-,1:0-")
    assert dry.out.splitlines() == [
        "channel/logs/live/1 would be closed (dry run: nothing was changed); given up: 0:0-,1:0-",
        f"if that is what you want: braid {' '.join(named)}",
    ]
    for wrong in (close, (*close, "--accept-loss", "0:0-"), (*close, "--accept-loss", "0:0-1,1:0-")):
        refused = await shell.braid(*wrong)
        assert refused.code == 4 and f"braid {' '.join(named)}" in refused.err
    assert (await shell.braid(*close, "--accept-loss", "all")).code == 2
    closed = await shell.braid(*named, "--reason", "disk is dust")
    assert closed.out == "channel/logs/live/1 closed; given up: 0:0-,1:0-\n"
    channel = json.loads((await shell.braid("get", "channels", "logs/live/1", "-o", "json")).out)
    assert (channel["state"], channel["closed"]) == ("drained", True)
    told = (await shell.braid("events", "--for", "stream/logs", "-o", "json")).out
    assert "disk is dust" in told and "ChannelClosed" in told


@virtual
async def test_closing_an_undrained_or_unknown_channel_is_refused() -> None:
    shell = await with_a_lost_channel()
    active = await shell.braid("close", "channel", "logs/live/2")
    assert active.code == 4 and "only one that drains" in active.err
    unknown = await shell.braid("close", "channel", "logs/live/9")
    assert unknown.code == 4 and "logs/live/" in unknown.err
    assert (await shell.braid("close", "channel", "logs")).code == 2
    assert (await shell.braid("close", "stream", "logs")).code == 2


@virtual
async def test_an_ordered_stream_says_it_halts_and_resumes_on_command() -> None:
    shell = await Shell().start("east", "west")
    made = await shell.braid("create", "stream", "logs", "--lane", "live=2", "--clusters", "east,west", "--ordered")
    assert made.code == 0
    await asyncio.sleep(1.0)
    shell.kafka.named("east").kill()
    await asyncio.sleep(10.0)
    waiting = (await shell.braid("get", "channels", "logs/live", "-o", "wide")).out
    assert "the order: logs/live/1 to be drained first" in waiting
    assert "HALTED" in (await shell.braid("get", "streams")).out
    doctor = " ".join((await shell.braid("doctor")).out.split())
    assert "logs/live/2 is not consumed, to keep the order: logs/live/1 comes first" in doctor
    assert "braid release channel logs/live/2" in doctor
    released = await shell.braid("release", "channel", "logs/live/2", "--reason", "east is away for days")
    assert released.out == "channel/logs/live/2 released: it is consumed beside older ones\n"
    assert "STRANDED" in (await shell.braid("get", "streams")).out
    told = (await shell.braid("events", "--for", "stream/logs", "-o", "json")).out
    assert "east is away for days" in told and "ChannelReleased" in told
    again = await shell.braid("release", "channel", "logs/live/1")
    assert again.code == 4 and "waits for no other" in again.err
    assert (await shell.braid("release", "channel", "logs/live/9")).code == 4


@virtual
async def test_an_ordered_stream_halts_behind_a_returned_clusters_loss() -> None:
    shell = await with_a_lost_channel("--ordered")
    channels = (await shell.braid("get", "channels", "logs/live", "-o", "wide")).out
    assert "STRANDED" not in channels, "its cluster is back"
    assert "HALTED" in (await shell.braid("get", "streams")).out
    doctor = " ".join((await shell.braid("doctor")).out.split())
    assert "logs/live/2 is not consumed, to keep the order: logs/live/1 comes first" in doctor
    assert (await shell.braid("release", "channel", "logs/live/2")).code == 0
    assert "LOST" in (await shell.braid("get", "streams")).out
    assert (await shell.braid("close", "channel", "logs/live/1", "--accept-loss", "0:0-,1:0-")).code == 0
    assert (await shell.braid("close", "channel", "logs/dlq/1", "--accept-loss", "0:0-")).code == 0
    assert "OK" in (await shell.braid("get", "streams")).out
