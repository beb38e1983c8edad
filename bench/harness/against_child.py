"""Plays contestants of one benchmark, one round a line of standard input; run by file, in the root of any checkout.

`python against_child.py NAME ARGUMENTS`: the arguments, a JSON list, are those of the benchmark's `Contest`. It imports
nothing of its own checkout, because it plays in older ones. First it prints the names of Braid's contestants as JSON;
the list is empty if the checkout has no such benchmark. Then it prints the units, CPU seconds and wall seconds of a
round for each name that it reads.
"""

import asyncio
import gc
import importlib
import json
import sys
import time
from pathlib import Path


async def main(name: str, arguments: list[object]) -> None:
    """Until standard input ends."""
    try:
        module = importlib.import_module(f"bench.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"bench.{name}":
            raise
        print("[]", flush=True)
        return
    contestants = module.Contest(*arguments).contestants()
    peers = {module.PEER, module.AGAIN}
    print(json.dumps([each for each in contestants if each not in peers and "aiokafka" not in each]), flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        units = await contestants[json.loads(line)]()
        print(json.dumps([units, time.process_time() - cpu, time.perf_counter() - wall]), flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
