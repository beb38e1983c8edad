"""`bomb_reader` without the bound on what a batch may inflate to: the control for what is said of memory."""

import asyncio
import sys
from typing import Final

from testbed.members.bomb_reader import main

_BOUND: Final = "INFLATED_RECORD_BYTES_MAX"


def unbind() -> int:
    """Takes the bound out of all modules that read batches; returns how many had it."""
    bound = [
        module for name, module in sys.modules.items() if name.startswith("braid.kafka.") and hasattr(module, _BOUND)
    ]
    for module in bound:
        setattr(module, _BOUND, 1 << 30)
    return len(bound)


if __name__ == "__main__":
    assert unbind(), "somebody bounds it"
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
