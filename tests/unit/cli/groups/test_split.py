"""A lease that is far behind is split from the command line, and people see that it is."""

import asyncio
import json

from braid.client.consuming.consumer import Consumer
from braid.client.records.record import Record
from braid.kernel.limits.client import SPLIT_RECORDS_MIN
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.resources.dlq.test_rejected import produced, user

MANY = SPLIT_RECORDS_MIN + 500


async def behind() -> Shell:
    """A mesh with a stream, and records in its only partition."""
    shell = await Shell().start("east", assigners=2)
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    await asyncio.sleep(2.0)
    await produced(shell, *(b"%d" % number for number in range(MANY)))
    return shell


async def described(shell: Shell) -> list[dict[str, object]]:
    """The splits of the group, as the command line tells them."""
    item = json.loads((await shell.braid("describe", "group", "g", "-o", "json")).out)
    splits: list[dict[str, object]] = item["status"].get("splits", [])
    return splits


@virtual
async def test_a_split_is_asked_made_seen_and_ends_by_itself() -> None:
    shell = await behind()
    handled: list[int] = []

    async def slowly(record: Record) -> None:
        await asyncio.sleep(0.1)
        handled.append(record.offset)

    async with user(shell, "app") as mesh, mesh.consumer(["logs"], group="g", concurrency=10) as consumer:
        running = asyncio.ensure_future(consumer.run(slowly))
        await shell.until(lambda: len(handled) > 10)
        made = await shell.braid("split", "g", "logs", "--share", "0.4")
        assert (made.code, made.out) == (0, f"lease/logs/live/1/0 is split at {MANY}, 40% for what lies behind\n"), made
        assert [(each["lease"], each["at"]) for each in await described(shell)] == [("logs/live/1/0", MANY)]
        text = (await shell.braid("describe", "group", "g")).out
        assert "logs/live/1/0" in text and str(MANY) in text
        await produced(shell, b"new")
        await shell.until(lambda: MANY in handled)
        assert len(handled) < MANY
        await leader_dies(shell)
        assert len(await described(shell)) == 1, "a new leader hears of it, and knows it from the history"
        await until_whole(shell, consumer)
        assert await described(shell) == [] and sorted(handled) == list(range(MANY + 1))
        out = (await shell.braid("events", "--for", "group/g", "-o", "json")).out
        order = [out.index(f'"{each}"') for each in ("SplitAsked", "LeaseSplit", "SplitEnded")]
        assert order == sorted(order)
    await running


@virtual
async def test_who_splits_in_vain_is_told() -> None:
    shell = await behind()
    async with user(shell, "app") as mesh, mesh.consumer(["logs"], group="g", ordering="key"):
        refused = await shell.braid("split", "g", "logs")
        assert refused.code == 0 and "is not split: its records keep an order" in refused.out
        assert [each.get("at") for each in await described(shell)] == [-1]
        relaxed = await shell.braid("split", "g", "logs", "--relaxed")
        assert f"is split at {MANY}, 20% for what lies behind" in relaxed.out, relaxed
        for wrong, why in (
            (("h", "logs"), "there is no group"),
            (("g", "metrics"), "nobody holds such a lease"),
            (("g", "logs", "--lane", "bulk"), "nobody holds such a lease"),
            (("g", "logs", "--share", "1"), "1 is no share"),
        ):
            result = await shell.braid("split", *wrong)
            assert result.code in (2, 4) and why in result.err, result


@virtual
async def test_a_lease_that_moves_before_its_holder_hears_is_named() -> None:
    shell = await behind()
    async with (
        user(shell, "one") as one,
        user(shell, "two") as two,
        one.consumer(["logs"], group="g") as first,
        two.consumer(["logs"], group="g") as second,
    ):
        await shell.until(lambda: bool(first.leases() or second.leases()))
        holder, other = ("one", second) if first.leases() else ("two", first)
        for assigner in ("assigner-0", "assigner-1"):
            shell.network.cut(holder, assigner)
        result = await shell.braid("split", "g", "logs")
        assert other.leases(), "the lease moved meanwhile"
        assert (result.code, result.out) == (0, ""), result
        assert "logs/live/1/0 is not split, or not any more: it may have moved meanwhile; say it again" in result.err
        assert "is split at" in (await shell.braid("split", "g", "logs")).out


async def leader_dies(shell: Shell) -> None:
    """Another assigner leads; members say hello to it."""
    shell.kill(next(name for name, each in shell.replicas.items() if name.startswith("assigner") and each.leading()))
    await asyncio.sleep(10.0)


async def until_whole(shell: Shell, consumer: Consumer) -> None:
    """The backlog is done, and the mesh was told."""
    await shell.until(lambda: not any(each.behind for each in consumer.explain()), 200.0)
    await asyncio.sleep(2.0)
