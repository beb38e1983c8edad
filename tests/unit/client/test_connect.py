"""An application imports all of its client when it connects: an import later would hold up a running loop."""

import subprocess
import sys
from typing import Final

CONNECTS: Final = """
import asyncio, importlib, sys
import braid

async def main() -> None:
    mesh = braid.connect("127.0.0.1:1")
    before = set(sys.modules)
    producer, consumer = mesh.producer("logs"), mesh.consumer(["logs"], group="billing")
    mesh._kafka.cluster("127.0.0.1:1", "")
    for module in ("braid.client.membership.lease_session", "braid.client.producing.route_session"):
        importlib.import_module(module)
    print(sorted(sys.modules.keys() - before))

asyncio.run(main())
"""


def test_producers_and_consumers_import_nothing_after_connect() -> None:
    answer = subprocess.run([sys.executable, "-c", CONNECTS], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
