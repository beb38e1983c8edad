"""I20, of quotas at Kafka: Braid changes and removes what it has recorded to be its own, and nothing else."""

import json
from collections.abc import Callable, Iterator, Sequence

from testbed.checkers.checking import Instant
from testbed.checkers.facts import Fact, Folded, QuotaChanged


class OwnQuotas(Instant):
    """I20: each quota that changes on a cluster was recorded before, and is of nobody else.

    It reads the clusters' histories as they are folded, and what others set.

    Attributes:
        recorded: Called whenever a leader has recorded what it is about to set; for who wants to kill it there.
        changed: How many values were changed: none would prove nothing.
    """

    invariant = "I20 quotas at Kafka"
    heeds: Sequence[type] = (Folded, QuotaChanged)

    def __init__(self, theirs: frozenset[tuple[str, str, str]]) -> None:
        """Begins before anything is declared. `theirs` are user, client id and key of what somebody else set."""
        self.recorded: Callable[[], None] = lambda: None
        self.changed = 0
        self._theirs = theirs
        self._sequences: dict[str, int] = {}
        self._known: dict[str, dict[tuple[str, str, str], int]] = {}  # by cluster

    def see(self, fact: Fact) -> Iterator[str]:
        """See `Checker`."""
        match fact:
            case Folded():
                self._fold(fact)
            case QuotaChanged(cluster, user, client_id, key, value):
                self.changed += 1
                about = user, client_id, key
                if about in self._theirs:
                    yield f"{key} of {user} on {cluster}, which somebody else set, became {value}"
                elif about not in self._known.get(cluster, {}):
                    yield f"{key} of {user} on {cluster} became {value}, and no history remembers it"
            case _:
                pass

    def _fold(self, fact: Folded) -> None:
        history = fact.history
        if (history.service, history.kind) != ("registry", "cluster"):
            return
        if fact.sequence <= self._sequences.get(history.id, 0):
            return
        quotas = json.loads(fact.state)["client_quotas"]
        now = {(each["user"], each["client_id"], each["key"]): int(each["value"]) for each in quotas}
        before = self._known.get(history.id, {})
        self._sequences[history.id], self._known[history.id] = fact.sequence, now
        if now.items() - before.items():
            self.recorded()
