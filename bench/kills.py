"""What kills cost: failover, takeover beside a classic Kafka group, a planned move. `python -m bench.kills`.

One mesh, one load, rounds in rotated order, the first round discarded. Figures are wall time in milliseconds: here
waiting is the cost. The peer runs at the shortest session its broker allows by default.
"""

import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.asking import asked
from bench.classic_member import SESSION_MS
from bench.classic_takeover import classic_takeover
from bench.rounds import Sample, order, rows, verdict
from bench.tables import Table, made_with
from tests.e2e.chaos.faults import FAULTS
from tests.e2e.chaos.run import Report, play

PEER: Final = "classic group, member killed"
AGAIN: Final = "classic group, member killed again"
CLUSTER_KILLS_MAX: Final = 4  # a stream fails over by itself only so often in ten minutes
ROUND: Final = ("kill member", PEER, AGAIN, "move")
NAMES: Final = {
    "kill member": "member_killed_to_first_record_ms",
    PEER: "classic_ms",
    AGAIN: "classic_again_ms",
    "move": "planned_move_stall_ms",
    "kill cluster": "cluster_killed_to_first_ack_elsewhere_ms",
}


def decks(rounds: int) -> Iterator[Sequence[str]]:
    """The discarded round, then the rounds that count, in rotated order."""
    for number in range(rounds + 1):
        deck = order(ROUND, number)
        yield [*deck, "kill cluster"] if number < CLUSTER_KILLS_MAX else deck


def table(report: Report) -> Table:
    """The table of a run."""
    samples = {name: [Sample(1, 0.0, ms / 1e3) for ms in report.figures[figure][1:]] for name, figure in NAMES.items()}
    found = rows(samples, PEER, "wall", without_peer=("move", "kill cluster"))
    broken = f"void: {len(report.violations)} violations of invariants" if report.violations else ""
    facts = {
        "work": "one mesh under load; wall time from the kill to the first record (member), to the first "
        "acknowledgement elsewhere (cluster); a planned move: the longest stall of a producer",
        "peer": f"classic group of aiokafka, session.timeout.ms={SESSION_MS} (the least a broker allows by default)",
    }
    return Table("kills", "kill", "wall", broken or verdict(found, AGAIN), facts, found, made_with())


def main() -> int:
    """Runs the benchmark on a mesh of its own; 1 when the run is void."""
    how = asked(__doc__, units=1, quick_units=1)
    table_of_faults = {**FAULTS, PEER: classic_takeover(NAMES[PEER]), AGAIN: classic_takeover(NAMES[AGAIN])}
    with tempfile.TemporaryDirectory(prefix="braid-bench-") as directory:
        report = asyncio.run(play(Path(directory) / "run", 1, decks(how.rounds), table=table_of_faults))
    print(*report.violations, sep="\n")
    found = table(report)
    found.publish(how.directory)
    return int(bool(found.verdict) and not how.quick)


if __name__ == "__main__":
    sys.exit(main())
