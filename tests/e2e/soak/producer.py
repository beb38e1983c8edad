"""A producer of a chaos run that also looks at its own event loop.

`python -m tests.e2e.soak.producer NAME ENDPOINT LOG`; SIGTERM ends it in order.
"""

import asyncio
import sys
from pathlib import Path

from tests.e2e.chaos import producer
from tests.e2e.soak.probe import probed


async def main(name: str, endpoint: str, path: Path) -> None:
    """One life, until SIGTERM."""
    async with probed(path):
        await producer.main(name, endpoint, path)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
