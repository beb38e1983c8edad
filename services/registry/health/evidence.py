"""One probe of a cluster, and its meaning beside the reports of hosts that use the cluster. Pure.

| The registry's look | Hosts that use the cluster | Evidence |
|---|---|---|
| succeeds | enough of them fail, more than reach it | bad: producers are cut off |
| succeeds | that is one host, which alone uses it | the same, and weak: the trouble may be the host's own |
| succeeds | otherwise | good; slow or half-dead as its own figures say |
| fails at metadata | as many reach it as fail, by an answer since it failed first | bad, but only since that answer |
| fails later | the same, of those that write there | the same |
| is refused | enough hosts fail, more than reach it | bad: producers are cut off |
| is refused | otherwise | none: the registry's own password or permissions are wrong |
| fails | otherwise | bad; decisive when every broker refused twice in a row and enough of them fail |

"Enough of them" counts all hosts that use the cluster, or only those that write to it: an answer to a fetch does not
outweigh rejected appends. For the same reason an answer acquits the cluster only if the probe failed at metadata. If
brokers answer the registry, the registry is not cut off, and its own look at their logs outweighs readers.

Instants are seconds on a clock that never steps, and that stands still while the registry itself is late
(`liveness/own_lateness.py`).
"""

from dataclasses import dataclass
from enum import Enum

from braid.kernel.limits.registry.health import ALIVE_SLACK_SECONDS, REFUSED_LOOKS_MIN
from services.registry.liveness.witnesses import NO_REPORTS, ClusterReports, ReportCounts
from services.registry.model.clusters.health import HealthVerdict


class LookPart(Enum):
    """The parts of a probe, in this order."""

    METADATA = "metadata"
    APPEND = "append"
    FETCH = "fetch"


@dataclass(frozen=True, slots=True)
class Look:
    """One probe by the registry, from `since` to `until`.

    Attributes:
        failed: The part that failed; None if all went well.
        reason: Why, for people.
        refused: Every broker refused to connect: nobody listens there. A paused broker does not cause this.
        denied: The cluster answered that the registry has no permission. This says nothing about the cluster's health.
        append_seconds: How long the append took; 0 if it was not reached.
        cut_short: The probe had less than the usual time, and that was too little.
    """

    since: float
    until: float
    failed: LookPart | None = None
    reason: str = ""
    refused: bool = False
    append_seconds: float = 0.0
    cut_short: bool = False
    denied: bool = False

    @property
    def hangs(self) -> bool:
        """Whether the canary's partition accepted or returned nothing in the usual time."""
        return self.failed in (LookPart.APPEND, LookPart.FETCH) and not self.cut_short and not self.denied


@dataclass(frozen=True, slots=True)
class Evidence:
    """The combined result of a probe and the reports, about the span from `since` to `until`.

    Attributes:
        good: Whether the cluster works.
        reason: Why it does not, for people.
        verdict: The verdict if the evidence persists.
        alive_at: When a host saw an answer although the registry did not; None if that does not count.
        decisive: Whether it is strong enough to act upon at once.
        sole_since: Since when one host has complained, if the evidence rests on it alone; None if it does not.
        hanging_since: Since when appends hang because some of several brokers died; None if something else is wrong.
        hanging_seconds: The least time that appends hang before traffic leaves.
        slow, gaps, no_topics: Why it counts as slow, as half-dead or as unable to create topics, although it works; ''.
        known: Whether it shows anything at all.
    """

    since: float
    until: float
    good: bool
    reason: str = ""
    verdict: HealthVerdict = HealthVerdict.DEAD
    alive_at: float | None = None
    decisive: bool = False
    sole_since: float | None = None
    slow: str = ""
    gaps: str = ""
    no_topics: str = ""
    known: bool = True
    hanging_since: float | None = None
    hanging_seconds: float = 0.0


def weigh(
    look: Look,
    everyone: ReportCounts = NO_REPORTS,
    writers: ReportCounts | None = None,
    *,
    bad_since: float | None = None,
    refused_looks: int = 0,
    slow: str = "",
    gaps: str = "",
    too_much_gone: bool = False,
    no_topics: str = "",
) -> Evidence:
    """Combines a probe with the reports of hosts and with what earlier probes showed.

    Args:
        look: The registry's probe.
        everyone: Reports of all hosts that use the cluster.
        writers: Reports of those that write to it; None if all do.
        bad_since: When the present run of bad evidence from more than one host began; None for none.
        refused_looks: Number of probes in a row that every broker refused, this one included.
        slow: Why the cluster counts as slow at present; ''.
        gaps: Which parts of it are unavailable; ''.
        too_much_gone: Whether that is more than it may lose.
        no_topics: Why it cannot create topics; ''.
    """
    heard = ClusterReports(everyone, everyone if writers is None else writers)
    if look.failed is not None and not look.denied:
        since = look.since if bad_since is None else bad_since
        return _failed(look, heard, since, refused_looks)
    against = _against(heard)
    if too_much_gone and (against is None or against.sole):  # what the registry sees itself outweighs one host
        return Evidence(look.since, look.until, False, gaps, HealthVerdict.HALF_DEAD)
    if against is not None:
        since, sole_since = min(look.since, against.failing_since), against.complaining_since if against.sole else None
        own = "is refused there" if look.denied else "does"
        said = f"{_hosts(against.failing, against, heard)} do not reach it, the registry {own}"
        return Evidence(since, look.until, False, said, HealthVerdict.PRODUCERS_CUT_OFF, sole_since=sole_since)
    if look.denied:
        return Evidence(look.since, look.until, False, look.reason, known=False)
    return Evidence(look.since, look.until, True, slow=slow, gaps=gaps, no_topics=no_topics)


def _against(heard: ClusterReports) -> ReportCounts | None:
    """The reports that outweigh a successful probe.

    A single host counts only if no others use the cluster. A single principal that alone writes there does not count
    while others read there and are answered: it may be lying, and they see more than it does.
    """
    answered = heard.everyone.reaching > 0
    condemning = [each for each in heard if each.condemns and not (answered and each.sole and each.principals)]
    return next((each for each in condemning if not each.sole), next(iter(condemning), None))


def _failed(look: Look, heard: ClusterReports, bad_since: float, refused_looks: int) -> Evidence:
    assert look.failed is not None, "the look failed"
    reason = f"{look.failed.value}: {look.reason}"
    everyone = heard.everyone
    outweighing = _outweighing(look, heard)
    alive_at = outweighing.reached_at
    if outweighing.acquits and outweighing.reaching >= everyone.failing and alive_at > bad_since + ALIVE_SLACK_SECONDS:
        said = f"the registry's look fails ({reason}), {_hosts(outweighing.reaching, outweighing, heard)} reach it"
        return Evidence(look.since, look.until, False, said, HealthVerdict.REGISTRY_CUT_OFF, alive_at)
    decisive = refused_looks >= REFUSED_LOOKS_MIN and _against(heard) is not None
    if everyone.failing:
        reason = f"{reason}; {_hosts(everyone.failing, everyone, heard)} do not reach it either"
    since = min(look.since, everyone.failing_since)
    return Evidence(since, look.until, False, reason, HealthVerdict.DEAD, decisive=decisive)


def _outweighing(look: Look, heard: ClusterReports) -> ReportCounts:
    """The reports that may outweigh a failed probe."""
    return heard.everyone if look.failed is LookPart.METADATA else heard.writers


def _hosts(count: int, among: ReportCounts, heard: ClusterReports) -> str:
    use = "use" if among == heard.everyone else "write to"
    return f"{count} of {among.hosts} hosts that {use} it"
