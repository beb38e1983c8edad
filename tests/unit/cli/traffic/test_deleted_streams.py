"""A stream is deleted while it is consumed: with a group and without, by the command line and by the SDK."""

import asyncio
import io

import pytest

from braid.cli.core.output import Format
from braid.cli.core.terminal import Terminal
from braid.cli.traffic.consume import Wanted, consume_records
from braid.kernel.errors import NotFound
from tests.unit.cli.mesh import Result, Shell, virtual
from tests.unit.cli.traffic.test_verbs import produce, with_stream


def nowhere() -> Terminal:
    """A terminal that nobody looks at."""
    return Terminal(io.StringIO(), io.StringIO(), {})


async def consumed_until_deleted(shell: Shell, group: str) -> Result:
    """How `consume` ends when its stream is deleted after its first record was printed."""
    wanted = Wanted("logs", group, "earliest", (), None, 0, 0.0)
    running = asyncio.ensure_future(shell.work(lambda session: consume_records(session, wanted, Format.TABLE)))
    await asyncio.sleep(5)
    assert (await shell.braid("delete", "stream", "logs", "--yes")).code == 0
    async with asyncio.timeout(30):
        return await running


@virtual
async def test_reading_a_deleted_stream_ends_with_an_error_saying_so() -> None:
    shell = await with_stream("east")
    await produce(shell, b"one\n")
    ended = await consumed_until_deleted(shell, "")
    assert (ended.code, ended.out) == (4, "one\n")
    assert "stream logs was deleted while it was read" in ended.err
    assert "try: list what there is: braid get streams" in ended.err


@virtual
async def test_consuming_a_deleted_stream_as_a_group_ends_in_an_error() -> None:
    shell = await with_stream("east")
    await produce(shell, b"one\n")
    ended = await consumed_until_deleted(shell, "g")
    assert (ended.code, ended.out) == (4, "one\n")
    assert "stream logs was deleted: group g has nothing left to consume" in ended.err
    assert "try: create it again, or delete the group: braid delete group g" in ended.err


@virtual
async def test_a_consumer_of_a_deleted_stream_does_not_wait() -> None:
    shell = await with_stream("east")
    await consumed_until_deleted(shell, "g")
    again = await shell.braid("consume", "logs", "--group", "g", seconds=30)
    assert again.code == 4
    assert "stream logs was deleted: group g has nothing left to consume" in again.err


@virtual
async def test_a_stream_created_again_is_consumed_by_its_old_group() -> None:
    shell = await with_stream("east")
    await consumed_until_deleted(shell, "g")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1", "--lane", "bulk=1")).code == 0
    await produce(shell, b"new\n")
    again = await shell.braid("consume", "logs", "--group", "g", "--max", "1", seconds=30)
    assert (again.code, again.out) == (0, "new\n")


@virtual
async def test_a_deleted_streams_handler_is_not_called_and_run_raises() -> None:
    shell = await with_stream("east")
    async with shell.session(nowhere()) as session, session.mesh.consumer(["logs"], group="g") as consumer:
        running = asyncio.ensure_future(consumer.run(lambda record: None))
        await asyncio.sleep(5)
        assert (await shell.braid("delete", "stream", "logs", "--yes")).code == 0
        with pytest.raises(NotFound, match="stream logs was deleted"):
            async with asyncio.timeout(30):
                await running


@virtual
async def test_a_group_of_two_streams_goes_on_with_the_one_left() -> None:
    shell = await with_stream("east")
    assert (await shell.braid("create", "stream", "bills", "--lane", "live=1")).code == 0
    async with shell.session(nowhere()) as session, session.mesh.consumer(["bills", "logs"], group="g") as consumer:
        await asyncio.sleep(5)
        assert (await shell.braid("delete", "stream", "bills", "--yes")).code == 0
        await asyncio.sleep(30)
        await produce(shell, b"still\n")
        record = await consumer.take(30)
        assert record is not None and record.value == b"still"
        record.ack()
        assert (await shell.braid("delete", "stream", "logs", "--yes")).code == 0
        with pytest.raises(NotFound, match="streams bills, logs were deleted"):
            await consumer.take(30)


@virtual
async def test_without_a_registry_members_of_ended_channels_are_kept() -> None:
    shell = await with_stream("east")
    async with shell.session(nowhere()) as session, session.mesh.consumer(["logs"], group="g") as consumer:
        await asyncio.sleep(5)
        assert (await shell.braid("delete", "stream", "logs", "--yes")).code == 0
        shell.kill("registry-0")
        assert await consumer.take(20) is None
        await shell.replica("registry-0")
        with pytest.raises(NotFound, match="stream logs was deleted"):
            await consumer.take(60)
