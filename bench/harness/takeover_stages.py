"""Where the milliseconds of a takeover go, by the group's history and by what survivors told, for each kill."""

import statistics
from collections.abc import Iterable, Sequence
from typing import Final

from testbed.checkers.facts import Killed
from testbed.members.assigner_pair import AssignerPair
from testbed.members.telling_member import MemberEvent

TAKEN_MS: Final = 1_000.0  # a takeover that took longer has no stages worth a median
# What happened, in order. A decision's time is when it was made: before it was appended.
DECIDED: Final = {
    "MemberGone": "loss decided",
    "GenerationBumped": "new generation made",
    "LeasesGranted": "grant decided",
}
TOLD: Final = "survivor told"
HANDLED: Final = "record handled"


async def stages(pair: AssignerPair) -> str:
    """The median of each stage over all kills of members, in milliseconds since the kill; empty without any."""
    decided = await pair.decided()
    kills = [(us / 1e3, each.process) for us, each in pair.befallen if isinstance(each, Killed)]
    found = [
        each for at, name in kills if name in pair.logs and (each := stages_of(at, decided, survivors(pair, name, at)))
    ]
    if not found:
        return ""
    medians = {stage: statistics.median(each[stage] for each in found) for stage in found[0]}
    return ", ".join(f"{stage} {ms:.0f}" for stage, ms in medians.items()) + f" ms (medians of {len(found)})"


def survivors(pair: AssignerPair, killed: str, at: float) -> list[MemberEvent]:
    """The survivors' log lines in the moment after a kill, in order."""
    lines = [line for name in pair.logs if name != killed for line in pair.since(name, at)]
    return sorted(line for line in lines if line.ms <= at + TAKEN_MS)


def stages_of(at: float, decided: Iterable[tuple[float, str]], told: Sequence[MemberEvent]) -> dict[str, float]:
    """Milliseconds from a kill to each stage, in their order; empty when one is missing.

    Args:
        at: When, ms since the epoch.
        decided: When events were decided, and their types, in order.
        told: What survivors told since, in order.
    """
    reached, after = dict[str, float](), int(at)
    for kind, stage in DECIDED.items():
        after = next((int(ms) for ms, each in decided if ms >= after and each == kind), 0)
        if not after:
            return {}
        reached[stage] = max(after - at, 0.0)
    granted = [line for line in told if line.what == "granted"]
    taken = {_partition(line.subject) for line in granted}
    begun = [line.ms for line in told if line.what == "began" and _partition(line.subject) in taken]
    later = [ms for ms in begun if granted and ms >= granted[0].ms]
    return {**reached, TOLD: granted[0].ms - at, HANDLED: later[0] - at} if later else {}


def _partition(subject: str) -> str:
    """The partition of a lease, or of a record."""
    return subject.rpartition("/")[2]
