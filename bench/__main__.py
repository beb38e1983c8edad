"""`make bench`: benchmarks one after the other, each in a process of its own; then one table of them all.

`python -m bench --only produce --only commit` runs some, `--quick` shows that they run. Files go to `build/bench/`.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.harness.tables import DIRECTORY, Table

BENCHMARKS: Final = (
    "consume",
    "concurrency",
    "backlog",
    "flood",
    "poison",
    "bombs",
    "acks",
    "envelope",
    "produce",
    "commit",
    "fencing",
    "lag_decode",
    "lag_division",
    "lag_looks",
    "lag_restart",
    "lag_scale",
    "placement",
    "spark",
    "spark_micro",
    "takeover",
    "stalls",
    "moves",
    "repartition",
    "cluster_loss",
    "zones",
    "waves",
    "steady",
    "healthy",
    "heartbeats",
    "mutual_tls",
    "audit",
    "identity",
    "pathways",
    "all_lag",
    "console_scale",
    "console_timeline",
)


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 when a run was void or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="run this one; may be given again")
    parser.add_argument("--quick", action="store_true", help="only show that they run; the numbers mean nothing")
    told = parser.parse_args(arguments)
    quickly = ["--quick"] if told.quick else []
    directory = DIRECTORY / "quick" if told.quick else DIRECTORY
    before = {path: path.stat().st_mtime_ns for path in directory.glob("*.json")}
    failed = []
    for name in told.only or BENCHMARKS:
        print(f"--- {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}", *quickly], check=False).returncode:
            failed.append(name)
    written = [path for path in sorted(directory.glob("*.json")) if before.get(path) != path.stat().st_mtime_ns]
    print(*summary(written), sep="\n")
    if failed:
        print(f"void or failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


def summary(written: list[Path]) -> list[str]:
    """One table of the tables in these files, and what they were made with."""
    lines = ["", "=== all tables"]
    for path in written:
        table = Table.read(path)
        lines += [*table.figures(), f"  [{table.verdict or 'self-check passed'}]"]
    if written:
        made = Table.read(written[-1]).made_with
        lines += [f"{name}: {made[name]}" for name in ("commit", "machine", "versions")]
    return lines


if __name__ == "__main__":
    sys.exit(main())
