"""What others say of clusters: hosts whose producers and consumers reach them, or do not. No I/O.

A host is one witness, however many of its processes speak: what ails one of them, or its network, ails it alone. The
last word counts, and only for a while. Times are on the clock that stands while the registry is late (`lateness.py`).
"""

from dataclasses import dataclass, field
from math import ceil, inf

from braid.kernel.limits_health import (
    COMPLAINT_PAUSE_SECONDS,
    SEND_REPORT_SECONDS,
    SEND_REPORTERS_MIN,
    SEND_REPORTERS_SHARE,
    WITNESSES_KEPT_MAX,
)


@dataclass(slots=True)
class Word:
    """What a host said of a cluster last: when it saw an answer, when it complained.

    Attributes:
        complains_since: The first of its complaints that followed each other without a long pause, and without an
            answer in between; what `complained_at` ends.
    """

    reached_at: float = -inf
    complained_at: float = -inf
    complains_since: float = -inf

    @property
    def newest(self) -> float:
        """When it said anything last."""
        return max(self.reached_at, self.complained_at)

    def complain(self, now: float) -> None:
        """Takes one more complaint. One that comes too late begins anew: nobody knows what was in between."""
        if now - self.complained_at > COMPLAINT_PAUSE_SECONDS or self.reached_at >= self.complained_at:
            self.complains_since = now
        self.complained_at = max(self.complained_at, now)

    def reach(self, at: float) -> None:
        """Takes one more answer, seen then; it ends the complaints of before."""
        self.reached_at = max(self.reached_at, at)
        if self.complains_since <= at:
            self.complains_since = self.complained_at


@dataclass(frozen=True, slots=True)
class Hearsay:
    """What is known of a cluster from others, at one instant.

    Attributes:
        hosts: How many use the cluster.
        reaching: How many of them saw an answer lately.
        failing: How many complained lately, and saw no answer.
        reached_at: The newest answer any saw; -inf for none.
        failing_since: The first of their last complaints, of those that fail; inf for none.
        complaining_since: Since when one of them has complained, short pauses aside, without an answer; inf for none.
    """

    hosts: int = 0
    reaching: int = 0
    failing: int = 0
    reached_at: float = -inf
    failing_since: float = inf
    complaining_since: float = inf

    @property
    def sole(self) -> bool:
        """Whether it is one host alone that fails, where too few use the cluster for others to agree with it."""
        return self.failing == 1 and self.hosts < SEND_REPORTERS_MIN

    @property
    def condemns(self) -> bool:
        """Whether so many fail that the cluster is unwell although the registry reaches it."""
        share = ceil(SEND_REPORTERS_SHARE * self.hosts)
        needed = SEND_REPORTERS_MIN if self.hosts >= SEND_REPORTERS_MIN else max(1, share)
        return self.failing >= needed and self.failing > self.reaching

    @property
    def acquits(self) -> bool:
        """Whether the cluster is alive although the registry does not reach it."""
        return self.reaching > 0 and self.reaching >= self.failing


NOBODY = Hearsay()


@dataclass(slots=True)
class Witnesses:
    """All that hosts said in a term of leadership."""

    _words: dict[str, dict[str, Word]] = field(default_factory=dict)

    def complains(self, cluster: str, host: str, now: float) -> None:
        """A host does not reach a cluster."""
        if (word := self._word(cluster, host)) is not None:
            word.complain(now)

    def reached(self, cluster: str, host: str, at: float) -> None:
        """A host saw an answer of a cluster."""
        if (word := self._word(cluster, host)) is not None:
            word.reach(at)

    def complained(self, cluster: str, now: float) -> bool:
        """Whether anybody complained lately."""
        words = self._words.get(cluster, {})
        return any(now - word.complained_at <= SEND_REPORT_SECONDS for word in words.values())

    def hearsay(self, cluster: str, hosts: int, now: float) -> Hearsay:
        """What is known of a cluster that so many hosts use; what is old is forgotten."""
        words = self._words.get(cluster, {})
        words = {host: word for host, word in words.items() if now - word.newest <= COMPLAINT_PAUSE_SECONDS}
        self._words[cluster] = words
        lately = [word for word in words.values() if now - word.newest <= SEND_REPORT_SECONDS]
        reaching = [word for word in lately if now - word.reached_at <= SEND_REPORT_SECONDS]
        failing = [word for word in lately if now - word.reached_at > SEND_REPORT_SECONDS]
        return Hearsay(
            max(hosts, len(lately)),
            len(reaching),
            len(failing),
            max((word.reached_at for word in reaching), default=-inf),
            min((word.complained_at for word in failing), default=inf),
            min((word.complains_since for word in failing), default=inf),
        )

    def _word(self, cluster: str, host: str) -> Word | None:
        words = self._words.setdefault(cluster, {})
        if host not in words and len(words) >= WITNESSES_KEPT_MAX:
            return None
        return words.setdefault(host, Word())
