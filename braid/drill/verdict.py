"""The result of a drill: expectations against the evidence in its files, and what was only simulated. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from braid.drill.evidence import Evidence
from braid.drill.plan import DrillKind, Plan

NAMED_MAX: Final = 3  # lost records that are named
_SMALL: Final = "The load was the drill's own, {rate} small records a second: the stream's own load was not rehearsed."
_SIMULATED: Final[Mapping[DrillKind, Sequence[str]]] = {
    DrillKind.MOVE: ("Nothing was simulated: the move was a real one, of the drill's stream.",),
    DrillKind.CLUSTER_LOSS: (
        "Cluster {cluster} was not broken: only the drill's own processes refused connections to its brokers.",
        "The registry took the drill's reports for its own looks failing, for the drill's stream alone; it reached "
        "{cluster} all the time, as did the assigner.",
        "No record on a disk was in danger: losses by brokers that lose data were not rehearsed.",
    ),
    DrillKind.BROKER_LOSS: (
        "Broker {broker} of {cluster} was not broken: only the drill's own processes refused connections to it.",
        "Kafka elected no other leaders, since nothing had happened to it: the pause until then was not rehearsed.",
        "The registry took the drill's reports for appends that hang, for the drill's stream alone.",
    ),
    DrillKind.MEMBER_LOSS: ("Nothing was simulated: one of the drill's processes was killed (SIGKILL).",),
}


@dataclass
class DrillInstants:
    """Instants of a drill, in monotonic nanoseconds; None if not reached.

    Attributes:
        began_ns: The load begins.
        broken_ns: The failure begins, or the move is requested.
        healed_ns: Connections are admitted again; equal to `broken_ns` if none were refused.
        drained_ns: All old channels are drained.
        ended_ns: The load ends.
        victim: The member that was killed.
        leases: The victim's leases, with epochs.
        failure: Why the drill ended early.
    """

    began_ns: int | None = None
    broken_ns: int | None = None
    healed_ns: int | None = None
    drained_ns: int | None = None
    ended_ns: int | None = None
    victim: str = ""
    leases: Mapping[str, int] | None = None
    failure: str = ""


@dataclass(frozen=True)
class DrillVerdict:
    """Judges a drill by its evidence and instants."""

    plan: Plan
    measured: DrillInstants
    evidence: Evidence

    @property
    def passed(self) -> bool:
        """Whether nothing was lost, and everything recovered in time."""
        return not any(True for _ in self.complaints())

    @property
    def first_ack_elsewhere_ms(self) -> int | None:
        """Time from the failure to another cluster's first acknowledgement, in the last lane to get one."""
        broken_ns = self.measured.broken_ns
        if broken_ns is None or not self.plan.leaves:
            return None
        return _ms(broken_ns, self.evidence.first_ack_elsewhere_ns(self.plan.cluster, broken_ns))

    @property
    def longest_stall_ms(self) -> int | None:
        """The longest time without an acknowledgement from the failure to the end of the load, in any lane."""
        broken_ns, ended_ns = self.measured.broken_ns, self.measured.ended_ns
        if broken_ns is None or ended_ns is None:
            return None
        return round(self.evidence.longest_stall_ns(broken_ns, ended_ns) / 1e6)

    @property
    def drained_ms(self) -> int | None:
        """Time from the return of the cluster (or the move) until its old channels were drained."""
        healed_ns = self.measured.healed_ns
        return None if healed_ns is None else _ms(healed_ns, self.measured.drained_ns)

    @property
    def takeover_ms(self) -> int | None:
        """Time from a member's death until survivors handled records of all its partitions."""
        measured = self.measured
        if measured.broken_ns is None or not measured.leases:
            return None
        taken = self.evidence.taken_over_ns(measured.victim, measured.leases, measured.broken_ns)
        return _ms(measured.broken_ns, max(taken.values())) if measured.leases.keys() <= taken.keys() else None

    def complaints(self) -> Iterator[str]:
        """The expectations that were not met."""
        evidence, plan = self.evidence, self.plan
        if self.measured.failure:
            yield self.measured.failure
        if lost := evidence.lost:
            named = ", ".join(sorted(f"{id} ({evidence.acknowledged[id].cluster})" for id in lost)[:NAMED_MAX])
            yield f"{len(lost)} acknowledged records were not handled: {named}"
        if not evidence.acknowledged:
            yield "no record was acknowledged"
        if plan.leaves and self.first_ack_elsewhere_ms is None:
            yield f"no other cluster took the traffic of {plan.cluster} within {plan.leave_seconds:g} s"
        if plan.leaves and self.drained_ms is None:
            yield f"what was left on {plan.cluster} was not drained"
        if not plan.leaves and self.takeover_ms is None:
            yield "partitions of the killed member were not taken over"

    def simulated(self) -> Sequence[str]:
        """The failures that were only simulated, in words."""
        order = self.plan.order
        said = [*_SIMULATED[order.kind], _SMALL]
        return [each.format(cluster=self.plan.cluster, broker=order.broker, rate=order.rate_per_s) for each in said]

    def document(self) -> dict[str, object]:
        """The document for `-o json`; a time is null if it was not reached, and absent if it does not apply."""
        plan, order = self.plan, self.plan.order
        times: dict[str, object] = {"longestStallMs": self.longest_stall_ms}
        if plan.leaves:
            times = {"firstAckElsewhereMs": self.first_ack_elsewhere_ms, **times, "drainedMs": self.drained_ms}
        else:
            times = {"takeoverMs": self.takeover_ms, **times}
        return {
            "drill": order.kind.value,
            "stream": order.stream,
            "drillStream": plan.name,
            "cluster": plan.cluster,
            **({"broker": order.broker} if order.broker >= 0 else {}),
            "passed": self.passed,
            "records": {
                "acknowledged": len(self.evidence.acknowledged),
                "handled": len(self.evidence.handled),
                "lost": len(self.evidence.lost),
                "repeated": self.evidence.repeated,
            },
            **times,
            "complaints": [*self.complaints()],
            "simulated": [*self.simulated()],
        }

    def summary(self) -> str:
        """A one-line summary, for the drill's history."""
        evidence = self.evidence
        counts = f"{len(evidence.acknowledged)} acknowledged, {len(evidence.lost)} lost, {evidence.repeated} repeated"
        times = [f"{what} {value} ms" for what, value in self._times() if value is not None]
        return "; ".join([counts, *times, *self.complaints()])

    def rows(self) -> Sequence[tuple[str, str]]:
        """Rows for people: each measure and its result."""
        evidence = self.evidence
        return [
            ("acknowledged", f"{len(evidence.acknowledged):,}"),
            ("lost", f"{len(evidence.lost):,}"),
            ("repeated", f"{evidence.repeated:,}"),
            *((what, "never" if value is None else f"{value:,} ms") for what, value in self._times()),
        ]

    def _times(self) -> Sequence[tuple[str, int | None]]:
        stall = ("longest pause of acknowledgements", self.longest_stall_ms)
        if not self.plan.leaves:
            return [("survivors handle the killed member's partitions after", self.takeover_ms), stall]
        first = ("first acknowledgement elsewhere after", self.first_ack_elsewhere_ms)
        return [first, stall, (f"tail on {self.plan.cluster} drained after", self.drained_ms)]


def _ms(from_ns: int, to_ns: int | None) -> int | None:
    return None if to_ns is None else round((to_ns - from_ns) / 1e6)
