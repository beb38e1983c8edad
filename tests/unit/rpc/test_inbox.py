"""Messages that one end of a stream has received and nobody has read: bounded in number and in size."""

import asyncio

import pytest

from braid.kernel.limits.rpc import STREAM_INBOX_BYTES_MAX, STREAM_INBOX_MESSAGES_MAX
from braid.rpc.inbox import Inbox


async def waits(putting: "asyncio.Task[None]") -> bool:
    """Whether a writer is held back."""
    await asyncio.sleep(0)
    return not putting.done()


@pytest.mark.parametrize(
    ("count", "size"), [(STREAM_INBOX_MESSAGES_MAX, 1), (2, STREAM_INBOX_BYTES_MAX // 2), (1, STREAM_INBOX_BYTES_MAX)]
)
async def test_a_full_inbox_holds_its_writer_until_one_is_read(count: int, size: int) -> None:
    inbox = Inbox()
    for each in range(count):
        await inbox.put(each, size)
    putting = asyncio.ensure_future(inbox.put("late", size))
    assert await waits(putting)
    assert await inbox.get() == 0
    await putting
    assert [await inbox.get() for _ in range(count)] == [*range(1, count), "late"]
