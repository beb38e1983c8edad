"""Lag in seconds beside the truth, on one clock: the age of the oldest record that the newest commit leaves undone."""

import math
import random
from dataclasses import dataclass, field

from braid.api.lagmon.v1 import lag_pb2
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.mesh import LOGS, Mesh

PARTITIONS = 4
SECONDS = 30
STEP = 0.01
COMMIT_STEPS = 50  # a member commits every half second
LATE_STEPS = 20  # until a commit was read by the monitor for certain
SEED = 7
ERROR_SECONDS = 0.001 + 1e-9  # a millisecond: times are whole ones


@dataclass
class Worker:
    """A member's work on one partition: records are delivered at once, and take up to two seconds each."""

    produced_ms: list[int] = field(default_factory=list)
    done_at: list[float] = field(default_factory=list)
    stated: EnvelopeFields = field(default_factory=lambda: EnvelopeFields(0))

    def commit(self, now: float) -> EnvelopeFields:
        """The commit of this moment."""
        done = Ranges.of_offsets(offset for offset, at in enumerate(self.done_at) if at <= now)
        base = done.gaps(0, len(self.done_at)).start
        base = len(self.done_at) if base is None else base
        oldest = self.produced_ms[base] if base < len(self.produced_ms) else None
        head = self.produced_ms[-1] if self.produced_ms else None
        beyond = done.clip(base, len(self.done_at))
        self.stated = EnvelopeFields(base, beyond, oldest_ingested_at_ms=oldest, head_ingested_at_ms=head)
        return self.stated

    def truth(self, now_ms: int) -> float | None:
        """How old the oldest record is that the newest commit knows and leaves undone; None if it leaves none."""
        oldest = self.stated.oldest_ingested_at_ms
        undone = [at for offset, at in enumerate(self.produced_ms) if offset not in self.stated.claims]
        return None if oldest is None else (now_ms - undone[0]) / 1_000


def percentile(errors: list[float], share: float) -> float:
    return sorted(errors)[math.ceil(len(errors) * share) - 1]


async def seen_and_true() -> list[tuple[float, float]]:
    """Seconds of rows and the truth, over half a minute of work at random times."""
    mesh, dice = Mesh(), random.Random(SEED)
    mesh.channel(partitions=PARTITIONS)
    mesh.assigner.groups["indexer"] = ["live"]
    await mesh.start()
    workers = [Worker() for _ in range(PARTITIONS)]
    found: list[tuple[float, float]] = []
    for step in range(round(SECONDS / STEP)):
        await mesh.clock.sleep(STEP)
        for number, worker in enumerate(workers):
            if dice.random() < 0.05:
                mesh.produce(partition=number)
                worker.produced_ms.append(mesh.clock.now_ms())
                worker.done_at.append(mesh.clock.elapsed() + dice.uniform(0.3, 2.0))
            if step % COMMIT_STEPS == 0:
                mesh.commit("indexer", worker.commit(mesh.clock.elapsed()), number)
        if step % COMMIT_STEPS in range(LATE_STEPS, COMMIT_STEPS, 7):
            answer = await mesh.ask(detail=lag_pb2.LAG_DETAIL_PARTITION)
            for row in answer.lags:
                truth = workers[row.partition].truth(answer.time_ms)
                if row.topic == LOGS and truth is not None:
                    found.append((row.lag_seconds, truth))
    return found


def test_lag_of_a_member_with_envelopes_errs_by_a_millisecond() -> None:
    pairs = run_virtual(seen_and_true())
    assert len(pairs) > 800
    assert max(truth for _, truth in pairs) > 1.0, "nothing was ever behind"
    assert percentile([abs(seen - truth) for seen, truth in pairs], 0.99) <= ERROR_SECONDS
    off = [abs(seen - truth - 0.002) for seen, truth in pairs]
    assert percentile(off, 0.99) > ERROR_SECONDS, "two milliseconds would not be noticed"
