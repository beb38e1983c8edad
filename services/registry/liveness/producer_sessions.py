"""Producers' sessions of one term: the route revision each works by, and which no longer count as live. No I/O.

A drain waits until every live producer acknowledges a route without the channel. A producer no longer counts once it
has owed an acknowledgement for a session time, has been disconnected that long, or has ended its stream cleanly.
Sessions vanish with the term. The next leader waits one session time before it concludes anything from silence, except
about channels it activated itself: every producer that writes to those has said hello in this term.

When a producer dies, its receipts are lost. Its acknowledged records lie below any log end that was read after its
death. If no end was read since, nobody knows how far the log went, and that is what is recorded.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from braid.kernel.errors import EvidenceRefused, Exhausted, Unauthenticated
from braid.kernel.limits.registry.health import RESUMPTIONS_TOLD_MAX
from braid.kernel.limits.registry.resources import OFFSET_MAX, PRODUCER_SESSIONS_MAX
from braid.kernel.resumptions import Resumption
from services.registry.liveness.given_routes import GivenRoutes
from services.registry.liveness.seen_ends import ChannelEnds
from services.registry.liveness.witnesses import Reporter
from services.registry.model.channels import Channel, ChannelRef, checked


@dataclass
class ProducerSession:
    """The session of one producer instance.

    Attributes:
        connection: Number of its newest stream; older ones end.
        acknowledged: Newest revision it works by, with nothing in flight to channels that it dropped.
        owing_since: When it began to owe an acknowledgement; None if it owes none.
        gone_since: When its stream broke; None while connected.
        waived: Drains up to this revision no longer wait for it.
        principal: The principal of its certificate; nobody else may reopen it. Empty without a certificate.
        host: Where it runs, by its own account.
        lanes: The only lanes it writes to; all lanes if empty.
        knows_denials: Whether it never reports a cluster that denies it access; older SDKs do.
        drill: Whether its stream rehearses a failure: its reports on clusters concern that stream alone.
        questions: Clusters to ask it about.
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
    def reporter(self) -> Reporter:
        """The reporter that its reports on clusters come from."""
        return Reporter(self.host, self.principal)

    def introduce(self, host: str, lanes: Collection[str], *, drill: bool, knows_denials: bool) -> None:
        """Takes the properties in its newest hello."""
        self.host, self.lanes, self.drill, self.knows_denials = host, frozenset(lanes), drill, knows_denials


@dataclass
class Standing:
    """The state of a channel's producers.

    Attributes:
        holders: Producers that may still write to it.
        expired: Producers that no longer count and owe an acknowledgement.
        unheard: Whether producers that this term does not know (any more) may have written to it.
    """

    holders: Sequence[str]
    expired: Sequence[str] = ()
    unheard: bool = False


@dataclass
class Sessions:
    """All producer sessions of a term.

    Attributes:
        session_seconds: See the module.
        epoch: The term's epoch.
        began: When the term began, on `Clock.elapsed`.
        ends: Log ends when they were last read.
        given: The channels that producers were given.
    """

    session_seconds: float
    epoch: int
    began: float
    ends: ChannelEnds = field(default_factory=ChannelEnds)
    given: GivenRoutes = field(init=False)
    _sessions: dict[tuple[str, str], ProducerSession] = field(default_factory=dict)
    _receipts: dict[tuple[str, ChannelRef], dict[int, int]] = field(default_factory=dict)
    _resumptions: dict[tuple[str, ChannelRef], set[Resumption]] = field(default_factory=dict)
    _looked_at: dict[tuple[str, ChannelRef], dict[Resumption, None]] = field(default_factory=dict)
    _forgotten: dict[tuple[str, str], float] = field(default_factory=dict)  # by stream and lane ('': all): when

    def __post_init__(self) -> None:
        self.given = GivenRoutes(self.epoch)

    def open(
        self, stream: str, producer: str, acknowledged: int, current: int, now: float, principal: str = ""
    ) -> ProducerSession:
        """Opens or reopens a producer's session at its hello; `principal` is that of its certificate.

        A producer that owed an acknowledgement for too long (it was stopped, or cut off) gets a new period. Its debt
        stays waived for drains that did not wait for it, and only a new route lets it acknowledge anything.

        Raises:
            Exhausted: too many producers.
            Unauthenticated: the session was opened with a certificate, and is reopened without it or with another's.
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
        self.given.hello(stream, producer, principal, revision=acknowledged, late=self._knows_all(now))
        session.connection += 1
        session.gone_since = None
        self.acknowledge(session, acknowledged, current, now)
        return session

    def acknowledge(self, session: ProducerSession, revision: int, current: int, now: float) -> None:
        """Takes the revision a producer works by. An older one than the current still shows progress.

        A revision beyond the current one comes from before a restore of the store: it says nothing about this one.
        """
        if revision > current:
            revision = 0
        progressed = revision > session.acknowledged
        session.acknowledged = max(session.acknowledged, revision)
        if session.acknowledged >= current:
            session.owing_since = None
        elif progressed or session.owing_since is None:
            session.owing_since = now

    def give(self, session: ProducerSession, revision: int, channels: Iterable[ChannelRef]) -> None:
        """Notes the revision and the channels of a route, before it is sent to a producer."""
        self.given.give(session.stream, session.id, session.principal, revision, channels)

    def check_given(self, session: ProducerSession, channel: Channel, field: str) -> None:
        """Checks that a producer may have receipts of a channel.

        Raises:
            EvidenceRefused: it was never given the channel.
        """
        if not self._may_have_written(session, channel):
            message = (
                f"producer {session.id} was never given channel {channel.id(session.stream)}: it wrote nothing there"
            )
            raise EvidenceRefused(message, field=field, remedy="tell what the cluster acknowledged")

    def _may_have_written(self, session: ProducerSession, channel: Channel) -> bool:
        """Whether a producer was given a channel, as far as this term knows."""
        return self.given.may_have_written(session.stream, session.id, session.principal, channel)

    def take_receipts(self, stream: str, channel: Channel, next_offsets: Mapping[int, int]) -> None:
        """Takes, from a producer that left a channel, the offset of each partition below which it has receipts."""
        known = self._receipts.setdefault((stream, channel.ref), {})
        for partition, offset in next_offsets.items():
            if 0 <= partition < channel.partitions:
                known[partition] = max(known.get(partition, 0), min(offset, OFFSET_MAX))

    def known_ends(self, stream: str, channel: Channel) -> tuple[int, ...]:
        """Per partition, the offset below which receipts or log ends are known; empty if none are.

        Logs that were seen empty do not count: no loss can be reported for them.
        """
        seen, told = self.ends.of(channel.cluster, stream, channel.ref), self.receipts(stream, channel)
        known = [each for each in (told, seen.ends if seen else ()) if any(each)]
        return tuple(map(max, zip(*known, strict=True)))

    def receipts(self, stream: str, channel: Channel) -> tuple[int, ...]:
        """Receipts that all producers reported for a channel, by partition; empty if none did."""
        known = self._receipts.get((stream, channel.ref))
        return tuple(known.get(number, 0) for number in range(channel.partitions)) if known else ()

    def forget_receipts(self, stream: str, channel: Channel, recorded: tuple[int, ...]) -> None:
        """Forgets receipts up to these, which are recorded now; higher ones that arrived meanwhile stay."""
        told = self.receipts(stream, channel)
        if all(one <= other for one, other in zip_longest(told, recorded, fillvalue=0)):
            self._receipts.pop((stream, channel.ref), None)

    def take_resumptions(self, stream: str, channel: Channel, told: Sequence[Resumption]) -> None:
        """Takes reports that a producer's logs continued over new connections; a repeated report may have been examined
        already."""
        key = (stream, channel.ref)
        waiting, looked_at = self._resumptions.setdefault(key, set()), self._looked_at.get(key, {})
        for each in checked(told, channel.partitions):
            if each not in looked_at and len(waiting) < RESUMPTIONS_TOLD_MAX:
                waiting.add(each)

    def resumptions(self, stream: str, channel: Channel) -> frozenset[Resumption]:
        """Resumptions of a channel that are to be examined."""
        return frozenset(self._resumptions.get((stream, channel.ref), ()))

    def looked_at(self, stream: str, channel: Channel, resumptions: Collection[Resumption]) -> None:
        """Drops resumptions that are known to be sound, or whose loss is recorded."""
        key = (stream, channel.ref)
        self._resumptions.get(key, set()).difference_update(resumptions)
        known = {**self._looked_at.get(key, {}), **dict.fromkeys(resumptions)}
        self._looked_at[key] = dict.fromkeys(list(known)[-RESUMPTIONS_TOLD_MAX:])

    def route_changed(self, stream: str, current: int, now: float) -> None:
        """Takes a new route revision: every producer on an older one owes an acknowledgement from now on."""
        for session in self._of(stream):
            if session.acknowledged < current and session.owing_since is None:
                session.owing_since = now

    def disconnected(self, session: ProducerSession, connection: int, now: float) -> None:
        """Takes the end of a producer's stream; if it was the newest, the session is kept for a while."""
        if session.connection == connection:
            session.gone_since = now

    def left(self, session: ProducerSession, connection: int) -> None:
        """Takes the clean end of a producer's newest stream: it writes no more."""
        if session.connection == connection:
            self._sessions.pop((session.stream, session.id), None)

    def overdue(self, session: ProducerSession, now: float) -> bool:
        """Whether a producer has owed an acknowledgement for too long: its stream is ended then."""
        return session.owing_since is not None and now - session.owing_since >= self.session_seconds

    def standing(self, stream: str, channel: Channel, current: int, now: float) -> Standing:
        """The producers that may still write to a channel that left the route at `channel.drain_revision`."""
        self._forget_gone(now)
        self._expire(stream, current, now)
        wanted = channel.drain_revision
        writers = [each for each in self._of(stream) if not each.lanes or channel.ref.lane in each.lanes]
        late = [each for each in writers if each.acknowledged < wanted and self._may_have_written(each, channel)]
        waited_for = [each.waived < wanted and self._is_waited_for(each, channel) for each in late]
        holders = [each.id for each, waited in zip(late, waited_for, strict=True) if waited]
        expired = [each.id for each, waited in zip(late, waited_for, strict=True) if not waited]
        if channel.activated_epoch != self.epoch and not self._knows_all(now):
            holders.append("producers this registry has not heard of yet")
        return Standing(sorted(holders), sorted(expired), self._unheard(stream, channel))

    def _knows_all(self, now: float) -> bool:
        """Whether all producers of earlier terms that still count have said hello."""
        return now - self.began >= self.session_seconds

    def _is_waited_for(self, session: ProducerSession, channel: Channel) -> bool:
        return self.given.is_waited_for(session.stream, session.id, session.principal, channel)

    def _unheard(self, stream: str, channel: Channel) -> bool:
        """Whether an unknown producer may have died after the channel's logs were last read.

        This term knows nothing of producers that died before it. Those that lived have said hello within a session
        time, or no longer count.
        """
        seen = self.ends.of(channel.cluster, stream, channel.ref)
        deaths = [self._forgotten.get((stream, lane), float("-inf")) for lane in ("", channel.ref.lane)]
        if channel.activated_epoch != self.epoch:
            deaths.append(self.began + self.session_seconds)
        return max(deaths) > (seen.at if seen else float("-inf"))

    def connected(self, streams: Collection[str]) -> Sequence[ProducerSession]:
        """Producers of these streams that are connected."""
        return [each for each in self._sessions.values() if each.stream in streams and each.gone_since is None]

    def _of(self, stream: str) -> Sequence[ProducerSession]:
        return [session for (name, _), session in self._sessions.items() if name == stream]

    def _expire(self, stream: str, current: int, now: float) -> None:
        for session in self._of(stream):
            if self._gone(session, now, 1) or self.overdue(session, now):
                session.waived = max(session.waived, current)

    def _forget_gone(self, now: float) -> None:
        """Drops sessions of producers that were killed without leaving, once no drain waits for them."""
        for key, each in [*self._sessions.items()]:
            if each.gone_since is not None and self._gone(each, now, 2):
                del self._sessions[key]
                for lane in each.lanes or ("",):
                    before = self._forgotten.get((each.stream, lane), each.gone_since)
                    self._forgotten[each.stream, lane] = max(before, each.gone_since)

    def _gone(self, session: ProducerSession, now: float, times: int) -> bool:
        return session.gone_since is not None and now - session.gone_since >= times * self.session_seconds
