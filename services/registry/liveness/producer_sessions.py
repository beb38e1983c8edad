"""Producers' sessions of one term: who works by which route revision, and who stopped counting. No I/O.

A drain waits for every live producer to acknowledge a route without the channel. A producer stops counting when it has
owed an acknowledgement for a session time, or has been disconnected for so long, or ended its stream well. Sessions are
liveness: they vanish with the term, and the next leader waits one session time before it concludes anything from
silence, except about channels it activated itself: whoever writes to those has said hello to this very term.

Whoever dies takes its receipts along. What it had acknowledged lies below the end of a log that was seen after its
death; where nobody looked since, nobody knows how far the log went, and that is what is recorded.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from braid.kernel.errors import Exhausted, Unauthenticated
from braid.kernel.limits.health import RESUMPTIONS_TOLD_MAX
from braid.kernel.limits.registry import OFFSET_MAX, PRODUCER_SESSIONS_MAX
from braid.kernel.resumptions import Resumption
from services.registry.liveness.seen_ends import ChannelEnds
from services.registry.liveness.witnesses import Voice
from services.registry.model.channels import Channel, ChannelRef, checked


@dataclass
class ProducerSession:
    """One producer instance.

    Attributes:
        connection: Number of its newest stream; older ones end.
        acknowledged: Newest revision it works by with nothing in flight to what that dropped.
        owing_since: When it began to owe an acknowledgement; None while it owes none.
        gone_since: When its stream broke; None while connected.
        waived: Drains up to this revision do not wait for it any more.
        principal: That of the certificate it was opened with: nobody else may open it again. Empty where it has none.
        host: Where it runs, as it says.
        lanes: The only lanes it writes to; all of them when empty.
        knows_denials: Whether it never complains of a cluster that refuses it; older SDKs do.
        drill: Whether its stream rehearses a failure: what it says of clusters is about that stream alone.
        questions: Clusters it is to be asked about.
    """

    id: str
    stream: str
    connection: int = 0
    acknowledged: int = 0
    owing_since: float | None = None
    gone_since: float | None = None
    waived: int = 0
    principal: str = ""
    host: str = ""
    lanes: frozenset[str] = frozenset()
    knows_denials: bool = True
    drill: bool = False
    questions: set[str] = field(default_factory=set)

    @property
    def voice(self) -> Voice:
        """As whom it speaks of clusters."""
        return Voice(self.host, self.principal)

    def introduce(self, host: str, lanes: Collection[str], *, drill: bool, knows_denials: bool) -> None:
        """Takes what its newest hello says of it."""
        self.host, self.lanes, self.drill, self.knows_denials = host, frozenset(lanes), drill, knows_denials


@dataclass
class Standing:
    """What is known of a channel's producers.

    Attributes:
        holders: Who may still write to it.
        expired: Who stopped counting and owes an acknowledgement.
        unheard: Whether others may have written to it of whom this term does not know, or not any more.
    """

    holders: Sequence[str]
    expired: Sequence[str] = ()
    unheard: bool = False


@dataclass
class Sessions:
    """All sessions of a term.

    Attributes:
        session_seconds: See module.
        epoch: The term's epoch.
        began: When it began, on `Clock.elapsed`.
        ends: How far logs went when they were last looked at.
    """

    session_seconds: float
    epoch: int
    began: float
    ends: ChannelEnds = field(default_factory=ChannelEnds)
    _sessions: dict[tuple[str, str], ProducerSession] = field(default_factory=dict)
    _receipts: dict[tuple[str, ChannelRef], dict[int, int]] = field(default_factory=dict)
    _resumptions: dict[tuple[str, ChannelRef], set[Resumption]] = field(default_factory=dict)
    _looked_at: dict[tuple[str, ChannelRef], dict[Resumption, None]] = field(default_factory=dict)
    _forgotten: dict[tuple[str, str], float] = field(default_factory=dict)  # by stream and lane ('': all): when

    def open(
        self, stream: str, producer: str, acknowledged: int, current: int, now: float, principal: str = ""
    ) -> ProducerSession:
        """A producer said hello, for the first time or again; `principal` is that of its certificate.

        One that owed an acknowledgement for too long (it was stopped, or cut off) gets a new period: what it owed stays
        waived for drains that did not wait for it, and only by a new route can it acknowledge anything.

        Raises:
            Exhausted: too many producers.
            Unauthenticated: it was opened with a certificate, and comes back without it or with another's.
        """
        key = (stream, producer)
        session = self._sessions.get(key)
        if session is not None and session.principal and session.principal != principal:
            other = principal or "a caller without TLS"
            raise Unauthenticated(
                f"producer {producer} of {stream} is {session.principal}'s, not {other}'s", field="hello.producer_id"
            )
        if session is None:
            if len(self._sessions) >= PRODUCER_SESSIONS_MAX:
                self._forget_gone(now)
            if len(self._sessions) >= PRODUCER_SESSIONS_MAX:
                raise Exhausted(
                    f"the registry serves {PRODUCER_SESSIONS_MAX} producers already", remedy="share producers"
                )
            session = self._sessions[key] = ProducerSession(producer, stream)
        if self.overdue(session, now):  # drains go on without it; the route it is about to get is a new debt
            session.waived = max(session.waived, current)
            session.owing_since = None
        session.principal = principal
        session.connection += 1
        session.gone_since = None
        self.acknowledge(session, acknowledged, current, now)
        return session

    def acknowledge(self, session: ProducerSession, revision: int, current: int, now: float) -> None:
        """It works by a revision. One that lags behind the current one still shows that it moves.

        A revision beyond the current one belongs to a store that was restored since: it says nothing about this one.
        """
        if revision > current:
            revision = 0
        progressed = revision > session.acknowledged
        session.acknowledged = max(session.acknowledged, revision)
        if session.acknowledged >= current:
            session.owing_since = None
        elif progressed or session.owing_since is None:
            session.owing_since = now

    def take_receipts(self, stream: str, channel: Channel, next_offsets: Mapping[int, int]) -> None:
        """A producer that left a channel told below which offset of each partition it has receipts."""
        known = self._receipts.setdefault((stream, channel.ref), {})
        for partition, offset in next_offsets.items():
            if 0 <= partition < channel.partitions:
                known[partition] = max(known.get(partition, 0), min(offset, OFFSET_MAX))

    def known_ends(self, stream: str, channel: Channel) -> tuple[int, ...]:
        """Per partition, below which offset somebody has receipts or the log was seen to go; empty when nobody knows.

        Logs that were seen to be empty are no such knowledge: a loss of nothing could be told to nobody.
        """
        seen, told = self.ends.of(channel.cluster, stream, channel.ref), self.receipts(stream, channel)
        known = [each for each in (told, seen.ends if seen else ()) if any(each)]
        return tuple(map(max, zip(*known, strict=True)))

    def receipts(self, stream: str, channel: Channel) -> tuple[int, ...]:
        """What all producers told of a channel, by partition; empty when none told anything."""
        known = self._receipts.get((stream, channel.ref))
        return tuple(known.get(number, 0) for number in range(channel.partitions)) if known else ()

    def forget_receipts(self, stream: str, channel: Channel, recorded: tuple[int, ...]) -> None:
        """These are recorded, or higher ones; what was told meanwhile is not."""
        told = self.receipts(stream, channel)
        if all(one <= other for one, other in zip_longest(told, recorded, fillvalue=0)):
            self._receipts.pop((stream, channel.ref), None)

    def take_resumptions(self, stream: str, channel: Channel, told: Sequence[Resumption]) -> None:
        """A producer's logs went on over other connections; what is told again was perhaps looked at already."""
        key = (stream, channel.ref)
        waiting, looked_at = self._resumptions.setdefault(key, set()), self._looked_at.get(key, {})
        for each in checked(told, channel.partitions):
            if each not in looked_at and len(waiting) < RESUMPTIONS_TOLD_MAX:
                waiting.add(each)

    def resumptions(self, stream: str, channel: Channel) -> frozenset[Resumption]:
        """What is to be looked at of a channel."""
        return frozenset(self._resumptions.get((stream, channel.ref), ()))

    def looked_at(self, stream: str, channel: Channel, resumptions: Collection[Resumption]) -> None:
        """These are known to be well, or are recorded as a loss."""
        key = (stream, channel.ref)
        self._resumptions.get(key, set()).difference_update(resumptions)
        known = {**self._looked_at.get(key, {}), **dict.fromkeys(resumptions)}
        self._looked_at[key] = dict.fromkeys(list(known)[-RESUMPTIONS_TOLD_MAX:])

    def route_changed(self, stream: str, current: int, now: float) -> None:
        """A route has a new revision: whoever works by an older one owes an acknowledgement from now on."""
        for session in self._of(stream):
            if session.acknowledged < current and session.owing_since is None:
                session.owing_since = now

    def disconnected(self, session: ProducerSession, connection: int, now: float) -> None:
        """One of its streams ended; the session is kept for a while if it was the newest."""
        if session.connection == connection:
            session.gone_since = now

    def left(self, session: ProducerSession, connection: int) -> None:
        """It ended its newest stream well: it writes no more."""
        if session.connection == connection:
            self._sessions.pop((session.stream, session.id), None)

    def overdue(self, session: ProducerSession, now: float) -> bool:
        """Whether it has owed an acknowledgement for too long: its stream is ended."""
        return session.owing_since is not None and now - session.owing_since >= self.session_seconds

    def standing(self, stream: str, channel: Channel, current: int, now: float) -> Standing:
        """Who may still write to a channel that left the route at `channel.drain_revision`."""
        self._forget_gone(now)
        self._expire(stream, current, now)
        wanted = channel.drain_revision
        writers = [each for each in self._of(stream) if not each.lanes or channel.ref.lane in each.lanes]
        late = [session for session in writers if session.acknowledged < wanted]
        holders = [session.id for session in late if session.waived < wanted]
        expired = [session.id for session in late if session.waived >= wanted]
        knows_all = channel.activated_epoch == self.epoch or now - self.began >= self.session_seconds
        if not knows_all:
            holders.append("producers this registry has not heard of yet")
        return Standing(sorted(holders), sorted(expired), self._unheard(stream, channel))

    def _unheard(self, stream: str, channel: Channel) -> bool:
        """Whether a producer may have died that nobody knows of, after the channel's logs were last looked at.

        Of one that died before this term nobody told; who lived then has said hello within a session time, or stopped
        counting.
        """
        seen = self.ends.of(channel.cluster, stream, channel.ref)
        deaths = [self._forgotten.get((stream, lane), float("-inf")) for lane in ("", channel.ref.lane)]
        if channel.activated_epoch != self.epoch:
            deaths.append(self.began + self.session_seconds)
        return max(deaths) > (seen.at if seen else float("-inf"))

    def connected(self, streams: Collection[str]) -> Sequence[ProducerSession]:
        """Producers of these streams whose stream is open."""
        return [each for each in self._sessions.values() if each.stream in streams and each.gone_since is None]

    def _of(self, stream: str) -> Sequence[ProducerSession]:
        return [session for (name, _), session in self._sessions.items() if name == stream]

    def _expire(self, stream: str, current: int, now: float) -> None:
        for session in self._of(stream):
            if self._gone(session, now, 1) or self.overdue(session, now):
                session.waived = max(session.waived, current)

    def _forget_gone(self, now: float) -> None:
        """Producers that were killed never say that they leave; once no drain waits for them they only take room."""
        for key, each in [*self._sessions.items()]:
            if each.gone_since is not None and self._gone(each, now, 2):
                del self._sessions[key]
                for lane in each.lanes or ("",):
                    before = self._forgotten.get((each.stream, lane), each.gone_since)
                    self._forgotten[each.stream, lane] = max(before, each.gone_since)

    def _gone(self, session: ProducerSession, now: float, times: int) -> bool:
        return session.gone_since is not None and now - session.gone_since >= times * self.session_seconds
