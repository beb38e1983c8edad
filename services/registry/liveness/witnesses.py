"""Reports on clusters from hosts whose producers and consumers reach them, or do not. No I/O.

A host is one witness, however many of its processes report: a fault of one process, or of the host's network, affects
it alone. Only the last report counts, and only for a while. A complaint from an older SDK, which cannot tell refused
access from an unreachable cluster, counts only if the host was seen to reach the cluster: else its password may be
wrong. A host's producers and consumers are heard separately, because an answer to a fetch proves less than one to an
append; if its producers reported anything, that is the host's report. Times are on the clock that stands while the
registry is late (`own_lateness.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from math import ceil, inf
from typing import NamedTuple

from braid.kernel.limits.health import (
    COMPLAINT_PAUSE_SECONDS,
    SEND_REPORT_SECONDS,
    SEND_REPORTERS_MIN,
    SEND_REPORTERS_SHARE,
    WITNESSES_KEPT_MAX,
)


class Use(Enum):
    """How a reporting process uses a cluster: it writes or reads."""

    WRITES = "writes"
    READS = "reads"


class Users(NamedTuple):
    """The number of hosts that use a cluster, and of those that write to it."""

    hosts: int
    writing: int


@dataclass(slots=True)
class Word:
    """A host's latest reports on a cluster: when it saw an answer, and when it complained.

    Attributes:
        complains_since: The first complaint of the present run: no long pause and no answer in between. `complained_at`
            is
            the last.
        credible_at: The newest complaint that is not about refused access.
    """

    reached_at: float = -inf
    complained_at: float = -inf
    complains_since: float = -inf
    credible_at: float = -inf

    @property
    def newest(self) -> float:
        """The time of its latest report."""
        return max(self.reached_at, self.complained_at)

    def counts(self, now: float) -> bool:
        """Whether the complaint is about the cluster, not about the host's own access."""
        return self.reached_at > -inf or now - self.credible_at <= COMPLAINT_PAUSE_SECONDS

    def complain(self, now: float, *, credible: bool = True) -> None:
        """Takes one more complaint. After a long pause a new run begins: nothing is known about the time between."""
        if credible:
            self.credible_at = max(self.credible_at, now)
        if now - self.complained_at > COMPLAINT_PAUSE_SECONDS or self.reached_at >= self.complained_at:
            self.complains_since = now
        self.complained_at = max(self.complained_at, now)

    def reach(self, at: float) -> None:
        """Takes one more answer; it ends the run of complaints."""
        self.reached_at = max(self.reached_at, at)
        if self.complains_since <= at:
            self.complains_since = self.complained_at


@dataclass(frozen=True, slots=True)
class Hearsay:
    """All reports on a cluster at one instant.

    Attributes:
        hosts: Number of hosts that use the cluster.
        reaching: How many of them saw an answer lately.
        failing: How many complained lately, and saw no answer.
        reached_at: The newest answer that any of them saw; -inf for none.
        failing_since: The earliest among the last complaints of failing hosts; inf for none.
        complaining_since: Since when one of them has complained, short pauses aside, without an answer; inf for none.
        hosts_min: Number of hosts that must fail to outweigh the registry's probe; if fewer use the cluster,
        share_min: the share of them that must fail.
    """

    hosts: int = 0
    reaching: int = 0
    failing: int = 0
    reached_at: float = -inf
    failing_since: float = inf
    complaining_since: float = inf
    hosts_min: float = SEND_REPORTERS_MIN
    share_min: float = SEND_REPORTERS_SHARE

    @property
    def sole(self) -> bool:
        """Whether a single host fails, and too few use the cluster for others to confirm it."""
        return self.failing == 1 and self.hosts < self.hosts_min

    @property
    def condemns(self) -> bool:
        """Whether enough hosts fail that the cluster is unwell although the registry reaches it."""
        needed = self.hosts_min if self.hosts >= self.hosts_min else max(1, ceil(self.share_min * self.hosts))
        return self.failing >= needed and self.failing > self.reaching

    @property
    def acquits(self) -> bool:
        """Whether the cluster is alive although the registry does not reach it."""
        return self.reaching > 0 and self.reaching >= self.failing


NOBODY = Hearsay()


class Heard(NamedTuple):
    """Reports from all hosts that use a cluster, each counted once; and separately from those that write to it."""

    everyone: Hearsay
    writers: Hearsay

    def by(self, hosts_min: float, share_min: float) -> "Heard":
        """The same reports, weighed by a cluster's own thresholds."""
        return Heard(*[replace(each, hosts_min=hosts_min, share_min=share_min) for each in self])


SILENCE = Heard(NOBODY, NOBODY)


@dataclass(slots=True)
class Witnesses:
    """All reports of hosts in a term of leadership."""

    _words: dict[str, dict[str, dict[Use, Word]]] = field(default_factory=dict)

    def complains(self, cluster: str, host: str, now: float, use: Use = Use.WRITES, *, credible: bool = True) -> None:
        """Takes a host's report that it cannot reach a cluster; not `credible` if it may only be refused access."""
        if (word := self._word(cluster, host, use)) is not None:
            word.complain(now, credible=credible)

    def reached(self, cluster: str, host: str, at: float, use: Use = Use.WRITES) -> None:
        """Takes a host's report that a cluster answered."""
        if (word := self._word(cluster, host, use)) is not None:
            word.reach(at)

    def complained(self, cluster: str, now: float) -> bool:
        """Whether any host complained lately."""
        hosts = self._words.get(cluster, {}).values()
        return any(now - word.complained_at <= SEND_REPORT_SECONDS for words in hosts for word in words.values())

    def heard(self, cluster: str, users: Users, now: float) -> Heard:
        """The reports on a cluster with these users; old ones are forgotten."""
        kept = {
            host: words
            for host, words in self._words.get(cluster, {}).items()
            if any(now - word.newest <= COMPLAINT_PAUSE_SECONDS for word in words.values())
        }
        self._words[cluster] = kept
        spoken = {host: _spoken(words, now) for host, words in kept.items()}
        everyone = [words[use] for host, words in kept.items() if (use := spoken[host]) is not None]
        writers = [words[Use.WRITES] for host, words in kept.items() if spoken[host] is Use.WRITES]
        return Heard(_counted(everyone, users.hosts, now), _counted(writers, users.writing, now))

    def _word(self, cluster: str, host: str, use: Use) -> Word | None:
        hosts = self._words.setdefault(cluster, {})
        if host not in hosts and len(hosts) >= WITNESSES_KEPT_MAX:
            return None
        return hosts.setdefault(host, {}).setdefault(use, Word())


def _spoken(words: Mapping[Use, Word], now: float) -> Use | None:
    """The report that stands for a host: its producers' if they reported lately, else its consumers'; None if there is
    none."""
    lately = [use for use, word in words.items() if now - word.newest <= SEND_REPORT_SECONDS and word.counts(now)]
    return Use.WRITES if Use.WRITES in lately else next(iter(lately), None)


def _counted(words: list[Word], hosts: int, now: float) -> Hearsay:
    """Combines the reports of hosts, out of this many, into one `Hearsay`."""
    reaching = [word for word in words if now - word.reached_at <= SEND_REPORT_SECONDS]
    failing = [word for word in words if now - word.reached_at > SEND_REPORT_SECONDS]
    return Hearsay(
        max(hosts, len(words)),
        len(reaching),
        len(failing),
        max((word.reached_at for word in reaching), default=-inf),
        min((word.complained_at for word in failing), default=inf),
        min((word.complains_since for word in failing), default=inf),
    )
