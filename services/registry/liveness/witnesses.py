"""Reports on clusters from hosts whose producers and consumers reach them, or do not. No I/O.

A host is one witness, however many of its processes speak: what ails one of them, or its network, ails it alone. A
principal that was verified is one witness, too, whatever hosts it names: what most of its hosts say is what it says.
Nobody speaks as another's host. The last word counts, and only for a while. A complaint of an SDK that takes a cluster
which refuses it for one that is away counts only where the host was seen to reach the cluster: else its password may be
wrong. A host has two words, one of those who write there and one of those who read: an answer to a fetch proves less
than one to an append, so where its producers said anything, that is what it says. Times are on the
clock that stands while the registry is late (`lateness.py`).
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum
from math import ceil, inf
from typing import NamedTuple

from braid.kernel.limits.health import (
    COMPLAINT_PAUSE_SECONDS,
    SEND_REPORT_SECONDS,
    SEND_REPORTERS_MIN,
    SEND_REPORTERS_SHARE,
    WITNESS_HOSTS_MAX,
    WITNESSES_KEPT_MAX,
)


class Use(Enum):
    """How a reporting process uses a cluster: it writes or reads."""

    WRITES = "writes"
    READS = "reads"


class Users(NamedTuple):
    """How many witnesses use a cluster; how many of them write there."""

    hosts: int
    writing: int


class Voice(NamedTuple):
    """A speaker: a host as it names itself, and the principal that was verified; '' where none was."""

    host: str
    principal: str = ""


def users_of(writing: AbstractSet[Voice], reading: AbstractSet[Voice]) -> Users:
    """How many witnesses there are among those who write to a cluster and those who read it."""
    witnesses = _witnesses({*writing, *reading})
    return Users(len({*witnesses.values()}), len({witnesses[voice] for voice in writing}))


def _witnesses(voices: Collection[Voice]) -> Mapping[Voice, Voice]:
    """By voice, the witness that it is a part of: a principal that speaks on several hosts, else its host."""
    hosts: dict[str, set[str]] = {}
    for voice in voices:
        hosts.setdefault(voice.principal, set()).add(voice.host)
    spread = {principal for principal, named in hosts.items() if principal and len(named) > 1}
    return {each: Voice("", each.principal) if each.principal in spread else Voice(each.host) for each in voices}


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
        principals: How many of those that fail are verified principals.
    """

    hosts: int = 0
    reaching: int = 0
    failing: int = 0
    reached_at: float = -inf
    failing_since: float = inf
    complaining_since: float = inf
    hosts_min: float = SEND_REPORTERS_MIN
    share_min: float = SEND_REPORTERS_SHARE
    principals: int = 0

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

    _words: dict[str, dict[Voice, dict[Use, Word]]] = field(default_factory=dict)

    def complains(
        self, cluster: str, voice: Voice | str, now: float, use: Use = Use.WRITES, *, credible: bool = True
    ) -> None:
        """Somebody does not reach a cluster; not `credible` where it may only be refused there."""
        if (word := self._word(cluster, voice, use)) is not None:
            word.complain(now, credible=credible)

    def reached(self, cluster: str, voice: Voice | str, at: float, use: Use = Use.WRITES) -> None:
        """Somebody saw an answer of a cluster."""
        if (word := self._word(cluster, voice, use)) is not None:
            word.reach(at)

    def complained(self, cluster: str, now: float) -> bool:
        """Whether any host complained lately."""
        hosts = self._words.get(cluster, {}).values()
        return any(now - word.complained_at <= SEND_REPORT_SECONDS for words in hosts for word in words.values())

    def heard(self, cluster: str, users: Users, now: float) -> Heard:
        """The reports on a cluster with these users; old ones are forgotten."""
        kept = {
            voice: words
            for voice, words in self._words.get(cluster, {}).items()
            if any(now - word.newest <= COMPLAINT_PAUSE_SECONDS for word in words.values())
        }
        self._words[cluster] = kept
        spoken = {voice: _spoken(words, now) for voice, words in kept.items()}
        everyone = {voice: words[use] for voice, words in kept.items() if (use := spoken[voice]) is not None}
        writers = {voice: words[Use.WRITES] for voice, words in kept.items() if spoken[voice] is Use.WRITES}
        return Heard(
            _counted(_joint(everyone, now), users.hosts, now), _counted(_joint(writers, now), users.writing, now)
        )

    def _word(self, cluster: str, voice: Voice | str, use: Use) -> Word | None:
        voices, speaker = self._words.setdefault(cluster, {}), Voice(voice) if isinstance(voice, str) else voice
        if speaker not in voices and not _has_room(voices, speaker):
            return None
        return voices.setdefault(speaker, {}).setdefault(use, Word())


class _Said(NamedTuple):
    """The word of one witness, and whether it is a principal that was verified."""

    word: Word
    proved: bool


def _has_room(voices: Collection[Voice], speaker: Voice) -> bool:
    """Whether one more is kept: nobody's hosts may take the room of everybody's."""
    if len(voices) >= WITNESSES_KEPT_MAX:
        return False
    if not speaker.principal:
        return True
    return sum(each.principal == speaker.principal for each in voices) < WITNESS_HOSTS_MAX


def _joint(words: Mapping[Voice, Word], now: float) -> list[_Said]:
    """One word of each witness: what most of its voices say; an answer where as many say one thing as the other."""
    witnesses, said = _witnesses(words), dict[Voice, list[Word]]()
    unproved = {witnesses[voice] for voice in words if not voice.principal}
    for voice, word in words.items():
        said.setdefault(witnesses[voice], []).append(word)
    return [_Said(_most(each, now), witness not in unproved) for witness, each in said.items()]


def _most(words: list[Word], now: float) -> Word:
    failing = [word for word in words if now - word.reached_at > SEND_REPORT_SECONDS]
    if 2 * len(failing) <= len(words):
        return max(words, key=lambda word: word.reached_at)
    since = min(word.complains_since for word in failing)
    return replace(min(failing, key=lambda word: word.complained_at), complains_since=since)


def _spoken(words: Mapping[Use, Word], now: float) -> Use | None:
    """The report that stands for a host: its producers' if they reported lately, else its consumers'; None if there is
    none."""
    lately = [use for use, word in words.items() if now - word.newest <= SEND_REPORT_SECONDS and word.counts(now)]
    return Use.WRITES if Use.WRITES in lately else next(iter(lately), None)


def _counted(said: list[_Said], hosts: int, now: float) -> Hearsay:
    """Combines the reports of hosts, out of this many, into one `Hearsay`."""
    words = [each.word for each in said]
    reaching = [word for word in words if now - word.reached_at <= SEND_REPORT_SECONDS]
    failing = [word for word in words if now - word.reached_at > SEND_REPORT_SECONDS]
    return Hearsay(
        max(hosts, len(words)),
        len(reaching),
        len(failing),
        max((word.reached_at for word in reaching), default=-inf),
        min((word.complained_at for word in failing), default=inf),
        min((word.complains_since for word in failing), default=inf),
        principals=sum(each.proved for each in said if now - each.word.reached_at > SEND_REPORT_SECONDS),
    )
