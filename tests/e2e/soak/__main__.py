"""`python -m tests.e2e.soak --hours 8`: a soak; prints what grew, exits with 1 when something grows without bound."""

import argparse
import asyncio
import shutil
import sys
from pathlib import Path

from tests.e2e.soak.run import play

BUILD = Path(__file__).resolve().parents[3] / "build" / "soak"


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0)
    hours = parser.parse_args().hours
    shutil.rmtree(BUILD, ignore_errors=True)
    soak = asyncio.run(play(BUILD, hours * 3_600))
    print(soak.summary())
    for violation in soak.violations:
        print(f"VIOLATION {violation}")
    return 1 if soak.violations else 0


if __name__ == "__main__":
    sys.exit(main())
