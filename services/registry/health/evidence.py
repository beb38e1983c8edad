"""One look at a cluster, and what it means beside what others say of it. Pure.

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

"Enough of them" are of all hosts that use it, or of those that write there alone: an answer to a fetch does not make up
for records that are not taken. For the same reason it acquits only where the look failed at metadata. Where brokers
answer the registry it is not cut off, and its own look at their logs outweighs readers.

Instants are seconds on a clock that does not step, and stands while the registry itself is late (`lateness.py`).
"""

from dataclasses import dataclass
from enum import Enum

from braid.kernel.limits.health import ALIVE_SLACK_SECONDS, REFUSED_LOOKS_MIN
from services.registry.liveness.witnesses import NOBODY, Heard, Hearsay
from services.registry.model.health import HealthVerdict


class LookPart(Enum):
    """What a look consists of, in this order."""

    METADATA = "metadata"
    APPEND = "append"
    FETCH = "fetch"


@dataclass(frozen=True, slots=True)
class Look:
    """One look of the registry's own, from `since` to `until`.

    Attributes:
        failed: The part that did; None when all went well.
        reason: Why, for people.
        refused: Every broker refused to connect: nobody listens there, which a pause does not bring about.
        denied: The cluster answered that the registry may not: it says nothing about the cluster.
        append_seconds: How long the append took; 0 when it was not reached.
        cut_short: It had less than the usual time, and that was too short for it.
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
        """Whether the canary's partition took nothing, or gave nothing back, in the usual time."""
        return self.failed in (LookPart.APPEND, LookPart.FETCH) and not self.cut_short and not self.denied


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a look showed of the span from `since` to `until`, all told.

    Attributes:
        good: Whether the cluster does its work.
        reason: Why not, for people.
        verdict: What it is if it goes on so.
        alive_at: When somebody saw an answer although the registry did not; None when that does not count.
        decisive: Strong enough to act upon at once.
        sole_since: Since when one host has complained, where the evidence rests on it alone; None where it does not.
        hanging_since: Since when appends hang because some brokers of several died; None where something else is wrong.
        hanging_seconds: The least that they hang until traffic leaves.
        slow, gaps, no_topics: Why it counts as slow, or half-dead, or makes no topics, although it works; ''.
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
    hearsay: Hearsay = NOBODY,
    writers: Hearsay | None = None,
    *,
    bad_since: float | None = None,
    refused_looks: int = 0,
    slow: str = "",
    gaps: str = "",
    too_much_gone: bool = False,
    no_topics: str = "",
) -> Evidence:
    """Joins a look with what hosts say, and with what is known from the looks before.

    Args:
        look: The registry's own.
        hearsay: Of all hosts that use the cluster.
        writers: Of those that write there; None where all do.
        bad_since: Beginning of the present run of bad evidence that rests on more than one host; None for none.
        refused_looks: How many in a row were refused by every broker, this one included.
        slow: Why the cluster counts as slow at present; ''.
        gaps: What is gone of it; ''.
        too_much_gone: Whether that is more than it may lose.
        no_topics: Why it makes no topics; ''.
    """
    heard = Heard(hearsay, hearsay if writers is None else writers)
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


def _against(heard: Heard) -> Hearsay | None:
    """Whose complaints outweigh a look that succeeds; one host alone only where no others do."""
    condemning = [each for each in heard if each.condemns]
    return next((each for each in condemning if not each.sole), next(iter(condemning), None))


def _failed(look: Look, heard: Heard, bad_since: float, refused_looks: int) -> Evidence:
    assert look.failed is not None, "the look failed"
    reason = f"{look.failed.value}: {look.reason}"
    hearsay = heard.everyone
    believed = _believed(look, heard)
    alive_at = believed.reached_at
    if believed.acquits and believed.reaching >= hearsay.failing and alive_at > bad_since + ALIVE_SLACK_SECONDS:
        said = f"the registry's look fails ({reason}), {_hosts(believed.reaching, believed, heard)} reach it"
        return Evidence(look.since, look.until, False, said, HealthVerdict.REGISTRY_CUT_OFF, alive_at)
    decisive = refused_looks >= REFUSED_LOOKS_MIN and _against(heard) is not None
    if hearsay.failing:
        reason = f"{reason}; {_hosts(hearsay.failing, hearsay, heard)} do not reach it either"
    since = min(look.since, hearsay.failing_since)
    return Evidence(since, look.until, False, reason, HealthVerdict.DEAD, decisive=decisive)


def _believed(look: Look, heard: Heard) -> Hearsay:
    """Whose answers may hold a failing look back."""
    return heard.everyone if look.failed is LookPart.METADATA else heard.writers


def _hosts(count: int, hearsay: Hearsay, heard: Heard) -> str:
    use = "use" if hearsay == heard.everyone else "write to"
    return f"{count} of {hearsay.hosts} hosts that {use} it"
