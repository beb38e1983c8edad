"""The end of the story: what was promised against what the evidence shows. Pure: no I/O.

`Verdict.document` is `build/demo/verdict.json`; the table on the terminal says the same with more words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from demo.proof.evidence import Evidence
from demo.proof.table import Comparison

NAMED_MAX: Final = 3  # lost records named in a complaint
MEMORY_BYTES_AIM: Final = 4_000_000_000


@dataclass
class Scenes:
    """The measurements of the story; None where an act was not reached.

    Attributes:
        target: Observations to be acknowledged at least.
        store: Where the mesh keeps its histories.
        kafka: Version.
        seconds: The whole run.
        cluster: The one that was killed.
        first_ack_elsewhere_ms: From its death to the first acknowledgement of another.
        returned: Whether it came back.
        drained_ms: From its return to its channels being DRAINED.
        takeover_ms: From a member's death to the first record of its partitions at a survivor.
        move_stall_ms: Longest time without an acknowledgement during the planned move.
        answered_ms: From a lane beyond its target, in a flood of another, to the lane within it again.
        undone_ms: From the end of that flood to the answer undone.
        event_store: Whether a table was to be kept; without it nothing is said of one.
        table: The event store's table against the ledger.
        lag_seconds_max: The longest lag that lagmon told of.
        lag_seconds_final: What it told at the end.
        memory_bytes_max: The most that all processes held together; 0 before the first look.
        failure: Why the story ended early.
        look: The file of the run to look into first, then.
    """

    target: int
    store: str = "sqlite"
    kafka: str = ""
    seconds: float = 0.0
    cluster: str = ""
    first_ack_elsewhere_ms: float | None = None
    returned: bool = False
    drained_ms: float | None = None
    takeover_ms: float | None = None
    move_stall_ms: float | None = None
    answered_ms: float | None = None
    undone_ms: float | None = None
    event_store: bool = True
    table: Comparison | None = None
    lag_seconds_max: float = 0.0
    lag_seconds_final: float | None = None
    memory_bytes_max: int = 0
    failure: str = ""
    look: str = ""

    def held(self, memory_bytes: int) -> None:
        """All processes together hold so much now."""
        self.memory_bytes_max = max(self.memory_bytes_max, memory_bytes)


class Complaint(NamedTuple):
    """Something that is not as promised, and the file of the run to look into first ('' for none)."""

    what: str
    look: str


class Row(NamedTuple):
    """A line of the table: what, how it was, what was promised ('' for nothing), whether it is so."""

    what: str
    value: str
    promise: str = ""
    kept: bool = True


@dataclass
class Verdict:
    """Judges one run of the demo.

    Attributes:
        scenes: What the story measured.
        evidence: What the files prove.
        lost: Acknowledged records that are nowhere.
    """

    scenes: Scenes
    evidence: Evidence
    lost: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lost = self.evidence.unsettled()

    @property
    def ok(self) -> bool:
        """Whether everything promised held."""
        return not any(True for _ in self.complaints())

    def complaints(self) -> Iterator[Complaint]:
        """Lists the promises that were not kept; the first is what to look into."""
        scenes, evidence = self.scenes, self.evidence
        if scenes.failure:
            yield Complaint(scenes.failure, scenes.look)
        if self.lost:
            yield Complaint(self._loss(), "member-*.log, mesh/services/assigner-*/service.log")
        if min(len(evidence.acked), evidence.distinct) < scenes.target:
            counts = f"{len(evidence.acked)} records acknowledged, {evidence.distinct} of them distinct"
            yield Complaint(f"{counts}: fewer than {scenes.target}", "shipper.log")
        if scenes.first_ack_elsewhere_ms is None:
            yield Complaint("no failover happened", "mesh/services/registry-*/service.log")
        if scenes.drained_ms is None:
            yield Complaint("the lost cluster's tail was not drained", "mesh/services/registry-*/service.log")
        if scenes.takeover_ms is None:
            yield Complaint("no partition was taken over", "mesh/services/assigner-*/service.log")
        if scenes.answered_ms is None or scenes.undone_ms is None:
            what = (
                "the flood was not answered" if scenes.answered_ms is None else "the answer to the flood was not undone"
            )
            yield Complaint(what, "mesh/services/assigner-*/service.log")
        if evidence.dead_lettered != evidence.poisoned or not evidence.poisoned:
            counts = f"{len(evidence.poisoned)} damaged records, {len(evidence.dead_lettered)} dead letters"
            yield Complaint(f"dead letters are not accounted for: {counts}", "mesh/services/dlq-*/service.log")
        elif evidence.replayed != evidence.poisoned:
            counts = f"{len(evidence.replayed)} of {len(evidence.poisoned)} dead letters handled after their replay"
            yield Complaint(counts, "mesh/services/dlq-*/service.log")
        if scenes.event_store and (scenes.table is None or not scenes.table.equal):
            differs = "was not compared" if scenes.table is None else f"is not the ledger: {scenes.table.worded()}"
            yield Complaint(f"the event store's table {differs}", "event-store.log")
        if scenes.lag_seconds_final is None:
            yield Complaint("lagmon saw no end of the lag", "mesh/services/lagmon-*/service.log")

    def _loss(self) -> str:
        named = [
            f"{name} ({self.evidence.acked[name].lane} on {self.evidence.acked[name].cluster})" for name in self.lost
        ]
        return f"{len(named)} acknowledged records are lost: {', '.join(sorted(named)[:NAMED_MAX])}"

    def document(self) -> dict[str, object]:
        """The content of `verdict.json`."""
        scenes, evidence = self.scenes, self.evidence
        return {
            "ok": self.ok,
            "store": scenes.store,
            "kafka": scenes.kafka,
            "seconds": round(scenes.seconds, 1),
            "records": {
                "acked": len(evidence.acked),
                "processed": len(evidence.processed),
                "lost": len(self.lost),
                "duplicates": evidence.duplicates,
                "dead_lettered": len(evidence.dead_lettered),
                "replayed": len(evidence.replayed),
            },
            "failover": {
                "cluster": scenes.cluster,
                "first_ack_elsewhere_ms": _rounded(scenes.first_ack_elsewhere_ms),
                "returned": scenes.returned,
                "drained_ms": _rounded(scenes.drained_ms),
            },
            **({"event_store": _table_document(scenes.table)} if scenes.event_store else {}),
            "responses": {"answered_ms": _rounded(scenes.answered_ms), "undone_ms": _rounded(scenes.undone_ms)},
            "takeover": {"member_killed_to_first_record_ms": _rounded(scenes.takeover_ms)},
            "lag": {
                "max_seconds": round(scenes.lag_seconds_max, 1),
                "final_seconds": None if scenes.lag_seconds_final is None else round(scenes.lag_seconds_final, 1),
            },
            "memory": {"max_mb": round(scenes.memory_bytes_max / 1e6)},
        }

    def rows(self) -> Sequence[Row]:
        """The table."""
        scenes, evidence = self.scenes, self.evidence
        enough = min(len(evidence.acked), evidence.distinct) >= scenes.target
        accounted = evidence.dead_lettered == evidence.poisoned and bool(evidence.poisoned)
        return [
            Row("observations acknowledged", f"{len(evidence.acked):,}", f"≥ {scenes.target:,}", enough),
            Row("  distinct", f"{evidence.distinct:,}"),
            Row("processed", f"{len(evidence.processed):,}"),
            Row("dead-lettered", f"{len(evidence.dead_lettered):,}", f"{len(evidence.poisoned):,} damaged", accounted),
            Row(
                "  replayed and handled",
                f"{len(evidence.replayed):,}",
                f"{len(evidence.poisoned):,}",
                evidence.replayed == evidence.poisoned,
            ),
            Row("lost", f"{len(self.lost):,}", "0", not self.lost),
            Row("repeats at the sinks", f"{evidence.duplicates:,}"),
            *([self._table()] if scenes.event_store else []),
            _timed("member killed → a survivor handles its records", scenes.takeover_ms, 1_000),
            _timed("cluster killed → first acknowledgement elsewhere", scenes.first_ack_elsewhere_ms, 5_000),
            _timed("cluster back → its tail drained", scenes.drained_ms, None),
            _timed("planned move: longest producer stall", scenes.move_stall_ms, 1_000),
            _timed("flood of one lane: until another is within its target", scenes.answered_ms, 15_000),
            _timed("flood over → its answer undone", scenes.undone_ms, 60_000),
            Row("longest lag, and lag at the end", self._lag(), "0 at the end", self._drained),
            Row("  oldest record at a handler", f"{evidence.age_seconds_max:.1f} s"),
            Row(
                "memory of all processes, at most",
                f"{scenes.memory_bytes_max / 1e9:.2f} GB",
                f"≤ {MEMORY_BYTES_AIM / 1e9:g} GB",
                0 < scenes.memory_bytes_max <= MEMORY_BYTES_AIM,
            ),
        ]

    def _table(self) -> Row:
        table = self.scenes.table
        what = "event-store table against the ledger"
        if table is None:
            return Row(what, "never", "equal", False)
        return Row(what, f"{table.rows:,} rows, {table.worded()}", "equal", table.equal)

    @property
    def _drained(self) -> bool:
        return self.scenes.lag_seconds_final is not None

    def _lag(self) -> str:
        final = self.scenes.lag_seconds_final
        return f"{self.scenes.lag_seconds_max:.1f} s, {'?' if final is None else f'{final:.1f} s'}"


def _table_document(table: Comparison | None) -> dict[str, int] | None:
    if table is None:
        return None
    wrong = {"twice": table.twice, "changed": table.changed, "foreign": table.foreign, "disordered": table.disordered}
    return {"rows": table.rows, "missing": len(table.missing), **wrong}


def _timed(what: str, milliseconds: float | None, goal_ms: float | None) -> Row:
    """A measured time; a goal is a figure to compare with, missing it does not spoil the verdict, having none does."""
    promise = "" if goal_ms is None else f"≤ {goal_ms / 1000:g} s"
    if milliseconds is None:
        return Row(what, "never", promise, False)
    return Row(what, f"{milliseconds / 1000:.2f} s", promise, goal_ms is None or milliseconds <= goal_ms)


def _rounded(milliseconds: float | None) -> int | None:
    return None if milliseconds is None else round(milliseconds)
