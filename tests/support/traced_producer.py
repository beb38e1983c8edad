"""An application that sends records to stream `logs` until its input ends; `opentelemetry-instrument` traces it."""

import asyncio
import sys

import braid


async def main(endpoint: str) -> None:
    """Sends a record after the other; says so once the first is acknowledged."""
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(None, sys.stdin.read)
    async with braid.connect(endpoint) as mesh, mesh.producer("logs") as producer:
        number = 0
        while not ended.done():
            await producer.send(b"%d" % number, key=b"%d" % (number % 7))
            if number == 0:
                print("sending", flush=True)
            number += 1
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
