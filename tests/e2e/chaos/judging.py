"""From logs, clusters and histories to facts in one order, and what the checkers say of them.

All processes share one clock of milliseconds. Within one millisecond facts come in the order of `_RANKS`: what must
have happened first is taken to have happened first.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from testbed.checkers import Checker, Violation, check, facts
from testbed.checkers.commits import ReadableEnvelopes, TruthfulCommits
from testbed.checkers.delivery import HonestReceipts, NoPhantom, ZeroLoss
from testbed.checkers.drains import SafeDrains
from testbed.checkers.epochs import OneLeaderAtATime, RisingEpochs
from testbed.checkers.folding import OneFold
from testbed.checkers.leases import OneGrant, Restful
from testbed.checkers.losses import ExactLosses
from testbed.ground.histories import KINDS
from testbed.ground.journals import Line
from testbed.ground.load import GROUP

Timed = tuple[int, facts.Fact]

_RANKS: Final[dict[type, int]] = {
    facts.Sent: 0,
    facts.Appended: 1,
    facts.Acknowledged: 2,
    facts.Processed: 3,
    facts.Rejected: 3,
    facts.DeadLettered: 4,
    facts.Committed: 5,
}
_HISTORIES: Final = 6


def in_order(timed: Sequence[Timed]) -> list[facts.Fact]:
    """Facts by time and rank; equal ones keep their order."""
    ordered = sorted(timed, key=lambda each: (each[0], _RANKS.get(type(each[1]), _HISTORIES)))
    return [fact for _, fact in ordered]


def line_facts(lines: Sequence[Line]) -> Iterator[Timed]:
    """The facts in the applications' logs."""
    for line in lines:
        place = facts.Place(line.cluster, line.topic, line.partition, line.offset)
        match line.kind:
            case "sent":
                yield line.ms, facts.Sent(line.value)
            case "acked":
                yield line.ms, facts.Acknowledged(line.value, place)
            case "processed":
                yield line.ms, facts.Processed(line.value, GROUP, place, line.epoch)
            case "rejected":
                yield line.ms, facts.Rejected(line.value, GROUP, place)
            case _:
                pass


def checkers() -> list[Checker]:
    """Every invariant a run of real processes can be held to."""
    return [
        ZeroLoss([GROUP]),
        HonestReceipts(),
        NoPhantom(),
        TruthfulCommits(),
        ReadableEnvelopes(),
        RisingEpochs(),
        Restful(),
        OneLeaderAtATime(),
        OneGrant(),
        OneFold(KINDS),
        SafeDrains(),
        ExactLosses(producers_die=True),
    ]


def judge(found: Sequence[facts.Fact], only: str = "") -> list[Violation]:
    """Violations in the facts of a finished run: of every invariant, or of the named one."""
    return check([each for each in checkers() if only in ("", each.invariant)], found)


def repeats(found: Sequence[facts.Fact]) -> int:
    """How often a record was processed again."""
    processed = [fact.value for fact in found if isinstance(fact, facts.Processed)]
    return len(processed) - len(set(processed))


def handled_again(lines: Sequence[Line], killed: str, at_ms: int) -> int:
    """How many records a killed member had processed and others processed again: its kill fell between two commits."""
    done = [line for line in lines if line.kind == "processed"]
    before = {(line.log, line.offset) for line in done if line.process == killed and line.ms <= at_ms}
    after = {(line.log, line.offset) for line in done if line.process != killed and line.ms > at_ms}
    return len(before & after)
