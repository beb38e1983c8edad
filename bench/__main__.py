"""`make bench`: every benchmark, one after the other, each in a process of its own. Tables go to `build/bench/`."""

import subprocess
import sys
from typing import Final

BENCHMARKS: Final = ("bench.consume", "bench.kills")


def main() -> int:
    """Returns 1 when a run was void."""
    ended = []
    for name in BENCHMARKS:
        print(f"--- {name}", flush=True)
        ended.append(subprocess.run([sys.executable, "-m", name], check=False).returncode)
    return max(ended)


if __name__ == "__main__":
    sys.exit(main())
