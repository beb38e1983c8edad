"""I4, fencing: for a group fenced by generations, a broker never accepts commits of an earlier holder again."""

from collections.abc import Iterator

from braid.api.assigner.v1.events_pb2 import AssignerEvent
from testbed.checkers.checking import Instant
from testbed.checkers.envelopes import read
from testbed.checkers.facts import BatchAppended, Committed, Fact, LogId


class FencedCommits(Instant):
    """I4: the epochs of stored commits never decrease, per group and log, unless an event waived fencing."""

    invariant = "I4 fencing"
    heeds = (BatchAppended, Committed)

    def __init__(self) -> None:
        self._epochs: dict[tuple[str, LogId], int] = {}
        self._waived: set[tuple[str, str]] = set()

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case BatchAppended(history=history, events=events) if history.service == "assigner":
                told = [AssignerEvent.FromString(data) for data in events]
                waived = [each.fencing_waived.cluster for each in told if each.HasField("fencing_waived")]
                self._waived.update((history.id, cluster) for cluster in waived)
            case Committed() if (fact.group, fact.log.cluster) not in self._waived:
                yield from self._committed(fact)
            case _:
                pass

    def _committed(self, commit: Committed) -> Iterator[str]:
        key, epoch = (commit.group, commit.log), read(commit).fields.epoch
        before = self._epochs.get(key, 0)
        if epoch < before:
            yield f"{commit.group} committed {commit.log} under epoch {epoch} after epoch {before}"
        self._epochs[key] = max(epoch, before)
