"""The peer of a takeover: one member of a classic Kafka group. Prints each record's partition and the wall clock.

`python -m bench.peers.classic_member BOOTSTRAP TOPIC GROUP OUTPUT`
"""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaConsumer

SESSION_MS: Final = 6_000  # the shortest a broker allows by default


async def main(bootstrap: str, topic: str, group: str, output: Path) -> None:
    """Consumes until killed."""
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=SESSION_MS // 10,
        auto_commit_interval_ms=500,
        metadata_max_age_ms=5_000,
    )
    await consumer.start()
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    async for record in consumer:
        os.write(descriptor, f"{record.partition} {int(time.time() * 1000)}\n".encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])))
