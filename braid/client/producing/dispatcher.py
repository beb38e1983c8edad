"""Sends a producer's records to channels, and moves them to other channels when the route changes.

In a planned change, clients of the new channels connect while the old channels still carry the records. Then records go
by the new route; a key waits only for its records that an old channel has yet to acknowledge (`KeyHandover`). Once the
old channels owe nothing they are left, and the revision is acknowledged.

In an unplanned change, or if acknowledgements of a planned one stay away, the lanes concerned take no records. The old
channels are left, so nothing in flight there is reported as success, and the revision is acknowledged. Unacknowledged
records are sent again by the new route, in order, and the lanes open. A newer route interrupts a change, which begins
anew.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from braid.client.producing.channel_sender import ChannelSender
from braid.client.producing.key_handover import KeyHandover
from braid.client.producing.outbox import Outbox, Pending
from braid.client.producing.receipts import ReceiptsByLog
from braid.client.producing.route_session import Reach
from braid.client.producing.routes import ActiveChannel, Placement, RouteTable
from braid.client.producing.settings import ProducerSettings
from braid.client.tasks import Turns, race, within
from braid.client.telemetry.zone_bytes import SENT, tally
from braid.kernel.errors import BraidError, ClusterAccessDenied, Invalid, TopicSealed, Unavailable, Withdrawn
from braid.kernel.ids import ChannelId
from braid.kernel.limits.client import (
    PLANNED_MOVE_PREPARE_SECONDS,
    PLANNED_MOVE_SILENCE_SECONDS,
    PLANNED_MOVE_WAIT_SECONDS,
    ROUTE_GRACE_SECONDS,
    SEALED_RETRY_SECONDS,
    SEND_ERRORS_AFTER_SECONDS,
)
from braid.kernel.ports import Host, Kafka, Written
from braid.kernel.resumptions import Resumption

Settled = Callable[[ChannelSender, Pending, Written | BraidError], None]


class Dispatcher:
    """A producer's senders, one for each channel, under the newest route."""

    def __init__(
        self,
        host: Host,
        kafka: Kafka,
        outbox: Outbox,
        settings: ProducerSettings,
        *,
        zone: str,
        settled: Settled,
        left: Callable[[ActiveChannel, Mapping[int, int]], None],
        resumed: Callable[[ActiveChannel, Resumption], None],
        acknowledge: Callable[[int], None],
    ) -> None:
        """`settled` is called once with the fate of each record, `acknowledge` with each revision that is complete.

        `left` gets each channel that was left and how far its receipts go; `resumed` gets logs that changed
        connections.
        """
        self._host = host
        self._kafka = kafka
        self._outbox = outbox
        self._settings = settings
        self._zone = zone
        self._on_settled = settled
        self._on_left = left
        self._acknowledge = acknowledge
        self._route: RouteTable | None = None
        self._newest: RouteTable | None = None
        self._changed = asyncio.Event()
        self._senders: dict[ChannelId, ChannelSender] = {}
        self._receipts = ReceiptsByLog(resumed)
        self._broken: dict[ChannelId, None] = {}
        self._refusing: dict[ChannelId, float] = {}  # since when, on `Clock.elapsed`
        self._gates: dict[str, asyncio.Event] = {}
        self._crossing = KeyHandover()
        self._placement = Placement(host.randomness, zone)
        self._ending: dict[ChannelSender, None] = {}
        self._closed = False

    @property
    def route(self) -> RouteTable:
        """The newest route. Raises `Unavailable` before the first."""
        if self._newest is None:
            raise Unavailable("no route is known yet")
        return self._newest

    def follow(self, route: RouteTable) -> None:
        """Notes a newer route; `run` moves to it."""
        self._newest = route
        self._changed.set()

    def offer(self, record: Pending) -> bool:
        """Queues a record to its channel, or behind those of its key; False if the caller must use `submit`."""
        gate = self._gates.get(record.lane)
        if gate is None or not gate.is_set() or self._closed:
            return False
        if self._crossing and self._crossing.takes(record):
            return True
        route = self._route
        assert route is not None, "a lane's gate opens with the first route"
        channel, partition = self._placement.choose(route, record.lane, record.key)
        sender = self._senders.get(channel.id)
        if sender is None or sender.left:
            return False
        record.channel, record.partition = channel.id, partition  # before it is offered: it may be settled at once
        try:
            taken = sender.offer(record, partition)
        except BraidError as error:
            self._settle(sender, record, error)
            return True
        if not taken:
            record.channel = None
        elif record.key is None:
            self._placement.went(record.lane, record.size)
        return taken

    async def submit(self, record: Pending) -> None:
        """Queues a record to its channel, waiting while its lane changes channels."""
        gate = self._gate(record.lane)
        while not gate.is_set():
            await gate.wait()
        # A change of route may have sent it meanwhile, in its turn.
        if record.channel is None and not record.future.done() and not self._closed:
            await self._send(record)

    async def run(self) -> None:
        """Follows routes until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await race(self._host.tasks, "route-change", self._change, self._changed.wait)

    def silent(self, now: float) -> Iterator[tuple[str, str, int, float]]:
        """Returns channels that have owed acknowledgements for long: cluster, channel, records in flight, seconds.

        A channel that owes only records for partitions without a leader is left out: its cluster can be reached.
        """
        for sender in self._senders.values():
            seconds = sender.silent_seconds(now)
            if seconds > SEND_ERRORS_AFTER_SECONDS and not self._wait_for_leaders(sender.channel.id):
                yield sender.channel.cluster, str(sender.channel.id), sender.in_flight, seconds

    def _wait_for_leaders(self, channel: ChannelId) -> bool:
        """Whether everything in flight to a channel is for partitions without a leader."""
        gone = self._placement.gone(channel)
        return bool(gone) and all(record.partition in gone for record in self._outbox.on_channel(channel))

    def reach(self, cluster: str, now: float) -> Reach:
        """Returns whether a cluster can be reached, as far as this producer's records show."""
        senders = [sender for sender in self._senders.values() if sender.channel.cluster == cluster]
        newest = max((at for sender in senders if (at := sender.reached_at(now)) is not None), default=None)
        return Reach(None if newest is None else now - newest, sum(sender.in_flight for sender in senders))

    def cluster_id(self, channel: ChannelId) -> str:
        """Returns the own id of the cluster of a channel; empty if it is not known, or the channel was left."""
        sender = self._senders.get(channel)
        return "" if sender is None else sender.cluster_id()

    def forgive(self, now: float) -> None:
        """Counts the silence of all channels anew, because this process was stopped or busy."""
        for sender in self._senders.values():
            sender.forgive(now)

    def look_at_refusals(self, now: float) -> None:
        """Tries sealed channels on the route again: a restored store has no seals, and no route says so."""
        for channel, since in self._refusing.items():
            if now - since >= SEALED_RETRY_SECONDS and channel not in self._broken:
                self._broken[channel] = None
                self._changed.set()

    def look_at_leaders(self) -> None:
        """Notes partitions without a leader: records that may go to another partition do so, even those that wait."""
        self._placement.avoid({channel: sender.leaderless() for channel, sender in self._senders.items()})
        lanes = self._route.lanes if self._route is not None else {}
        for channel, sender in list(self._senders.items()):  # withdrawing may open a sender
            gone = self._placement.gone(channel)
            if gone and self._placement.has_leaders(lanes.get(channel.lane, ())):
                sender.withdraw(gone)

    async def close(self) -> None:
        """Leaves every channel at once, and releases callers that wait for a lane."""
        self._closed = True
        for gate in self._gates.values():
            gate.set()
        senders, self._senders = list(self._senders.values()), {}
        await asyncio.gather(*(sender.leave() for sender in senders))
        await asyncio.gather(*(sender.ended() for sender in (*senders, *self._ending)))
        for sender in senders:  # the route may have changed, and nobody here heard so
            if sender.receipts:
                self._on_left(sender.channel, sender.receipts)

    # --- a change of route

    async def _change(self) -> None:
        route = self.route
        await self._prepare(route)
        leaving = self._leaving(route)
        for sender in leaving:
            if not self._carries(sender, route):
                self._gate(sender.channel.id.lane).clear()
        for lane in [*self._gates, *route.lanes]:
            if not route.lanes.get(lane) or lane not in self._gates:
                self._gate(lane).clear()
        self._route = route
        self._cross({sender.channel.id for sender in leaving})
        unsettled = await asyncio.gather(*(self._leave(sender, route) for sender in leaving))
        self._acknowledge(route.revision)
        if any(unsettled):
            await self._host.clock.sleep(ROUTE_GRACE_SECONDS)
        self._end_crossing()
        await self._resend(route)

    def _leaving(self, route: RouteTable) -> list[ChannelSender]:
        wanted = route.places()
        return [
            sender
            for channel, sender in self._senders.items()
            if wanted.get(channel) != sender.channel.place or channel in self._broken or sender.left
        ]

    def _carries(self, sender: ChannelSender, route: RouteTable) -> bool:
        """Whether a channel that is being left still acknowledges its records."""
        channel = sender.channel.id
        well = channel not in self._broken and channel not in self._refusing
        return route.planned.get(channel, False) and well and not sender.left

    def _cross(self, left: Collection[ChannelId]) -> None:
        """Sends records of open lanes by the newest route from now on; those of one key one after another."""
        waiting = [record for record in self._outbox if record.channel is None]  # of a change that was interrupted
        self._crossing.begin([channel for channel in left if self._gate(channel.lane).is_set()], self._outbox)
        for record in waiting:
            if self._gate(record.lane).is_set() and not self._crossing.takes(record):
                self._begin(record)

    def _end_crossing(self) -> None:
        """Closes lanes whose records wait for acknowledgements that never came: all are sent again in order."""
        for record in self._outbox:
            if record.channel is None:
                self._gate(record.lane).clear()
        self._crossing.end()

    async def _prepare(self, route: RouteTable) -> None:
        """Starts the clients of new channels of lanes in use; waits for them while the old channels continue."""
        used = {channel.lane for channel in self._senders}
        new = [
            self._sender(route, channel)
            for lane in sorted(used & route.lanes.keys())
            for channel in route.lanes[lane]
            if channel.id not in self._senders
        ]
        if all(self._carries(sender, route) for sender in self._leaving(route)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PLANNED_MOVE_PREPARE_SECONDS):
                    await asyncio.gather(*(sender.prepared() for sender in new))

    async def _leave(self, sender: ChannelSender, route: RouteTable) -> bool:
        """Leaves a channel; returns whether records must be sent again because they were not answered."""
        channel = sender.channel.id
        if self._carries(sender, route):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PLANNED_MOVE_WAIT_SECONDS):
                    await self._finished(sender)
        unsettled = sender.in_flight > 0 or channel in self._broken
        await sender.leave()
        self._host.tasks.spawn(self._end(sender), f"end-producer-{channel}")
        self._on_left(sender.channel, sender.receipts)
        self._senders.pop(channel, None)
        self._receipts.leave(sender.channel)
        self._broken.pop(channel, None)
        self._refusing.pop(channel, None)
        for record in self._outbox.on_channel(channel):
            record.channel = None
        return unsettled

    async def _finished(self, sender: ChannelSender) -> None:
        """Waits until nothing is in flight to a channel, as long as it acknowledges anything."""
        clock = self._host.clock

        def silent_for_too_long_at() -> float:
            now = clock.elapsed()
            return now - sender.silent_seconds(now) + PLANNED_MOVE_SILENCE_SECONDS

        with contextlib.suppress(TimeoutError):
            while sender.in_flight:
                await within(clock, silent_for_too_long_at, sender.idle)

    async def _end(self, sender: ChannelSender) -> None:
        """Ends a client in a task of its own: a frozen cluster delays its client's end, but no record."""
        self._ending[sender] = None
        await sender.ended()
        del self._ending[sender]

    async def _resend(self, route: RouteTable) -> None:
        """Sends records again that have no channel, oldest first, then opens each lane that has a channel."""
        closed = [lane for lane, gate in self._gates.items() if not gate.is_set() and route.lanes.get(lane)]
        turns = Turns(self._host.clock)  # the first are sent while the last are checked
        for record in [record for record in self._outbox if record.channel is None and record.lane in closed]:
            if record.future.done():  # its caller was cancelled and would not get the result
                self._outbox.remove(record)
            else:
                await self._send(record)
            await turns.done()
        for record in [record for record in self._outbox if record.channel is None and record.lane in closed]:
            self._begin(record)  # it came meanwhile, and goes before records that come once the lane is open
        for lane in closed:
            if not any(channel.id in self._refusing for channel in route.lanes[lane]):
                self._gate(lane).set()

    # --- one record

    def _begin(self, record: Pending) -> None:
        """Sends a record whose turn it is, without waiting: if it must wait, it does so in its channel."""
        if record.future.done():
            self._outbox.remove(record)
            return
        sender, partition = self._placed(record)
        try:
            sender.enqueue(record, partition)
        except BraidError as error:
            self._settle(sender, record, error)

    async def _send(self, record: Pending) -> None:
        sender, partition = self._placed(record)
        try:
            if not sender.offer(record, partition):
                await sender.send(record, partition)
        except asyncio.CancelledError:
            record.channel = None
            raise
        except BraidError as error:
            if not sender.left:
                self._settle(sender, record, error)

    def _placed(self, record: Pending) -> tuple[ChannelSender, int]:
        """Chooses a record's channel; returns the sender and the partition."""
        route = self._route
        assert route is not None, "a lane's gate opens with the first route"
        channel, partition = self._placement.choose(route, record.lane, record.key)
        record.channel, record.partition = channel.id, partition
        if record.key is None:
            self._placement.went(record.lane, record.size)
        return self._sender(route, channel), partition

    def _sender(self, route: RouteTable, channel: ActiveChannel) -> ChannelSender:
        sender = self._senders.get(channel.id)
        if sender is None:
            address = route.clusters[channel.cluster]
            cluster = self._kafka.cluster(address.bootstrap, address.security_profile)
            sender = ChannelSender(
                self._host,
                channel,
                cluster.producer(
                    linger_ms=self._settings.linger_ms,
                    compression=self._settings.compression,
                    max_batch_bytes=route.max_record_bytes,  # what its topics take, and some for framing
                ),
                self._settle,
                tally(SENT, channel.cluster, address.zone, self._zone),
                self._receipts.use(channel),
            )
            self._senders[channel.id] = sender
        return sender

    def _settle(self, sender: ChannelSender, record: Pending, result: Written | BraidError) -> None:
        """Reports the fate of a record, or sends it elsewhere or again."""
        if isinstance(result, (Written, Invalid, ClusterAccessDenied)):
            self._on_settled(sender, record, result)
            if self._crossing:
                self._go_on(self._crossing.settled(record))
            return
        if isinstance(result, Withdrawn):
            record.channel = None
            if self._gate(record.lane).is_set():  # else it is sent when its lane opens
                self._begin(record)
            return
        channel = sender.channel.id
        self._gate(channel.lane).clear()
        if isinstance(result, TopicSealed):  # another route helps, or the seal's end: see `look_at_refusals`
            self._refusing.setdefault(channel, self._host.clock.elapsed())
        else:
            self._broken[channel] = None
            self._changed.set()

    def _go_on(self, freed: Sequence[Pending]) -> None:
        """Sends records whose key is owed nothing more; those of a closed lane are sent when it opens."""
        for record in freed:
            if self._gate(record.lane).is_set():
                self._begin(record)

    def _gate(self, lane: str) -> asyncio.Event:
        gate = self._gates.get(lane)
        if gate is None:
            gate = self._gates[lane] = asyncio.Event()
        return gate
