"""A member that leaves records undone until it is killed: `stuck_member ENDPOINT STREAM COUNT SHARE [late]`.

In a group named like the stream it settles COUNT records, but for the first and a share of the others, commits, and
says so. What it leaves is drawn by a fixed seed, so that whoever kills it knows. With `late` it settles the rest, too,
after its last commit and before it says so.
"""

import asyncio
import random
import sys
from collections.abc import Collection

import braid


def left_of(count: int, share: float) -> Collection[int]:
    """The offsets that stay undone."""
    dice = random.Random(7)
    return {0} | {offset for offset in range(count) if dice.random() < share}


async def main(endpoint: str, stream: str, count: int, share: float, *, late: bool) -> None:
    """Is a member until killed."""
    left, kept = left_of(count, share), list[braid.Record]()
    seen = 0
    async with (
        braid.connect(endpoint, client_id="stuck") as mesh,
        mesh.consumer([stream], group=stream, commit_interval_seconds=3_600) as consumer,
    ):
        while seen < count:
            for record in await consumer.take_many(5_000, 10.0):
                seen += 1
                if record.offset in left:
                    kept.append(record)
                else:
                    record.ack()
        await consumer.commit()
        for record in kept if late else ():
            record.ack()
        print("committed", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), late=sys.argv[5:] == ["late"]))
