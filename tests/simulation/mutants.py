"""Mutants: the code under test with one thing broken, each with the invariant that must notice and a plan to notice it.

They are made from the outside, by replacing one function for the length of a run. A checker that lets its mutant live
proves nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final
from unittest.mock import patch

from braid.api.registry.v1 import stream_pb2
from braid.client.commits import claims, committer, encoder, restore, spill
from braid.client.consuming import cluster
from braid.client.delivery.cursor import Cursor
from braid.client.handling import circuit_breaker, dead_letters, runner
from braid.client.membership import heartbeats, join_stream
from braid.client.producing import dispatcher
from braid.client.producing.channel_sender import ChannelSender
from braid.client.producing.routes import RouteTable
from braid.client.records import intake_filter
from braid.client.records.handled import Handled
from braid.client.records.record import Record
from braid.kafka.memory.groups import Groups
from braid.kernel.envelope import EncodedCommit, encode
from braid.kernel.limits.envelope import ENVELOPE_UNITS_DEFAULT
from braid.kernel.ports import (
    KafkaAdmin,
    KafkaOffsets,
    OffsetAt,
    TopicPartition,
    Written,
)
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import EMPTY
from braid.kernel.progress.tracker import Progress
from braid.kernel.record_columns import RecordColumns
from braid.stores.memory import MemoryStore
from braid.stores.memory_server import MemoryStoreServer
from services.assigner import peers
from services.assigner.codec import events
from services.assigner.model.channels import SeenChannel
from services.assigner.policy import balance, constraints, homing, layout
from services.registry.kafka import drain
from services.registry.model.channels import Channel, ChannelState
from services.registry.model.stream_commands import RecordSealed, StreamCommand
from services.registry.policy import decommission
from services.registry.policy.world import World
from services.registry.reconciler import loop
from tests.simulation.broken_fencing import (
    adopt_generation,
    any_fence,
    any_generation,
    append_again,
    forget_epoch,
    same_epoch,
    watch_from_now,
)
from tests.simulation.broken_progress import from_the_head, sent_at_once, without_gaps
from tests.simulation.placed_wrongly import (
    borne_without_drains,
    row_without_bans,
    sieve_without_drains,
    take_home_again,
)
from tests.simulation.plan import FEW_UNITS, Plan
from tests.simulation.scripted import Step

FAULT_SECONDS: Final = 30.0
LOST_ANSWERS: Final = (  # while groups and streams are written again and again
    *(Step(2.0, "lose-answers", name, 14.0) for name in ("assigner-0", "assigner-1", "registry-0", "registry-1")),
    Step(2.5, "kill-member", "member-0", 1.0),
    Step(4.0, "move-stream", "west"),
    Step(5.0, "kill-member", "member-1", 1.0),
    Step(7.0, "move-stream", "east"),
    Step(8.0, "kill-member", "member-2", 1.0),
    Step(10.0, "move-stream", "west"),
)
_Patches = Sequence[tuple[object, str, object]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mutant: a defect, and the invariant that must catch it.

    Attributes:
        name: What it does wrong.
        invariant: Beginning of the name of the invariant that must notice.
        patches: Owner, attribute and replacement.
        faults: Kinds of faults that bring it to light.
        changes: What else of the plan does.
        shown_by: The seed that is known to show it. Others are tried where draws have changed since.
    """

    name: str
    invariant: str
    patches: _Patches
    faults: Sequence[str] = ("kill-member",)
    changes: dict[str, Any] = field(default_factory=dict)
    shown_by: int = 0

    def plan(self, seed: int) -> Plan:
        """A run likely to show it."""
        return replace(Plan(seed, FAULT_SECONDS, faults=self.faults), **self.changes)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Breaks the code for a while."""
        patchers = [patch.object(owner, name, replacement) for owner, name, replacement in self.patches]
        for patcher in patchers:
            patcher.start()
        try:
            yield
        finally:
            for patcher in patchers:
                patcher.stop()


_RUN: Final = runner.HandlerRunner.run


async def _ack_first(self: runner.HandlerRunner[Record]) -> None:
    handler = self._handler

    async def acked_first(record: Record) -> None:
        record.ack()
        try:
            await handler(record)
        except Exception:  # noqa: BLE001 - as the original: a handler may raise anything
            return

    self._handler = acked_first
    await _RUN(self)


def _hears_nothing(self: circuit_breaker.Circuits, item: Handled, *, well: bool) -> None:
    return


def _claim_gaps(fields: EnvelopeFields, limit_units: int = ENVELOPE_UNITS_DEFAULT, **how: Any) -> EncodedCommit:
    if not fields.done:
        return encode(fields, limit_units, **how)
    return encode(replace(fields, base=fields.done.edges[-1], done=EMPTY, attempts=()), limit_units, **how)


def _other_offset(fields: EnvelopeFields, limit_units: int = ENVELOPE_UNITS_DEFAULT, **how: Any) -> EncodedCommit:
    written = encode(fields, limit_units, **how)
    return written._replace(offset=max(0, written.offset - 1))


_restore: Final = restore.restore


async def _restore_at_end(
    group: str, partition: TopicPartition, offsets: KafkaOffsets, admin: KafkaAdmin, **how: Any
) -> restore.Restored:
    restored = await _restore(group, partition, offsets, admin, **how)
    if (await offsets.committed(group, [partition]))[partition].offset >= 0:
        return restored
    return restored._replace(progress=Progress((await admin.offsets_at({partition: OffsetAt.LATEST}))[partition]))


_leave: Final = dispatcher.Dispatcher._leave


async def _drop_unacknowledged(self: dispatcher.Dispatcher, sender: ChannelSender, route: RouteTable) -> bool:
    """A defect: sends in flight to a channel that is left count as written there."""
    now_ms = self._host.clock.now_ms()
    for record in self._outbox.on_channel(sender.channel.id):
        written = Written(sender.channel.topic, 0, sender.receipts.get(0, 0), now_ms)
        self._settle(sender, record, written)
    return await _leave(self, sender, route)


_write: Final = dead_letters.DeadLetters.write


def _mark_first(self: dead_letters.DeadLetters, record: Record, error: BaseException | str) -> None:
    assert isinstance(record.work, Cursor)
    record.work.progress.done(record.offset)
    _write(self, record, error)


def _extend_from_reply(self: join_stream.JoinStream, sequence: int) -> None:
    if self._sent_at.pop(sequence, None) is not None:
        self._held.extend(self._host.clock.elapsed())


def _extend_from_answer(self: heartbeats.Heartbeats, batch: heartbeats.BeatMessage, unheard: frozenset[int]) -> None:
    for seat in batch.seats:
        if seat.ticket in unheard:
            seat.void()
        else:
            seat.heard(self._host.clock.elapsed())


_left_on: Final = decommission.left_on


def _left_but_draining(world: World, cluster: str) -> Sequence[decommission.Left]:
    return [each for each in _left_on(world, cluster) if each.channel.state is not ChannelState.DRAINING]


async def _believe_sealed(access: object, cluster: object, channel: Channel, clock: object) -> StreamCommand:
    return RecordSealed(channel.ref)


async def _believe_shut(admin: KafkaAdmin, channel: Channel, ends: Mapping[TopicPartition, int]) -> None:
    """Does not prove the seal once more."""


async def _believe_refused(admin: KafkaAdmin, partition: TopicPartition) -> None:
    """A leader that has not heard of the seal yet takes what a late writer sends."""


def _with_canaries(part: RecordColumns) -> RecordColumns:
    return part


_seen: Final = peers._seen


def _seen_without_order(channel: stream_pb2.Channel) -> SeenChannel:
    unbound = stream_pb2.Channel()
    unbound.CopyFrom(channel)
    del unbound.waits_for[:]
    return _seen(unbound)


MUTANTS: Final = (
    Mutant(
        "commit before the sink",
        "I3",
        [(runner.HandlerRunner, "run", _ack_first)],
        changes={"handling_seconds": 0.4},
    ),
    Mutant(
        "a head's start claimed as done",
        "I3",
        [(claims, "joined", from_the_head)],
        ("split-lease", "kill-member"),
        {"handling_seconds": 0.4, "send_interval_seconds": 0.05},
    ),
    Mutant(
        "a pointer committed before its record is acknowledged",
        "I3",
        [(spill.Spill, "_send", sent_at_once)],
        changes={"handling_seconds": 0.4, "send_interval_seconds": 0.05, "metadata_units": FEW_UNITS},
    ),
    Mutant(
        "a circuit that nothing closes",
        "I1",
        [(circuit_breaker.Circuits, "ended", _hears_nothing)],
        ("sink-away",),
        {
            "send_interval_seconds": 0.05,
            "fault_seconds": 10.0,
            "settle_seconds": 15.0,
            "script": [Step(3.0, "sink-away", lasts_seconds=6.0)],
        },
    ),
    Mutant("gaps claimed", "I3", [(encoder, "encode", _claim_gaps)], changes={"handling_seconds": 0.4}),
    Mutant(
        "gaps forgotten on a hand-over",
        "I3",
        [(restore, "tracker", without_gaps)],
        changes={"handling_seconds": 0.4, "send_interval_seconds": 0.05},
    ),
    Mutant("metadata beside another offset", "I10", [(encoder, "encode", _other_offset)]),
    Mutant(
        "a start at the log's end",
        "I3",
        [(cluster, "restore", _restore_at_end)],
        ("move-stream", "kill-member"),
        shown_by=2,
    ),
    Mutant(
        "a dead letter marked before its acknowledgement",
        "I3",
        [(dead_letters.DeadLetters, "write", _mark_first)],
        ("kill-service", "pause-service", "kill-member"),
        {"send_interval_seconds": 0.05},
    ),
    Mutant(
        "the deadline measured from the reply",
        "I5",
        [(join_stream.JoinStream, "_acknowledged", _extend_from_reply)],
        ("fade-member",),
        {
            "exclusive": True,
            "lease_seconds": 1.0,
            "handling_seconds": 0.4,
            "send_interval_seconds": 0.03,
            "fault_interval_seconds": 4.0,
        },
    ),
    Mutant(
        "the deadline of carried heartbeats measured from the answer",
        "I5",
        [(heartbeats.Heartbeats, "_answered", _extend_from_answer)],
        ("fade-member",),
        {
            "exclusive": True,
            "lease_seconds": 1.0,
            "handling_seconds": 0.4,
            "send_interval_seconds": 0.03,
            "fault_interval_seconds": 4.0,
            "mates": 1,
            "mated": 3,
        },
    ),
    Mutant(
        "fencing off",
        "I6",
        [(MemoryStoreServer, "_check_fence", any_fence)],
        ("late-append",),
        {"fault_interval_seconds": 7.0},
        shown_by=1,
    ),
    Mutant(
        "a generation adopted without its delta",
        "I4",
        [(committer.Committer, "_send", adopt_generation)],
        ("pause-member", "fade-member", "cut-member", "pause-cluster"),
    ),
    Mutant(
        "a broker that checks no generation",
        "I4",
        [(Groups, "commit", any_generation)],
        ("pause-member", "fade-member", "cut-member", "pause-cluster"),
    ),
    Mutant("epochs used again", "I6", [(balance, "make_epoch", same_epoch)]),
    Mutant(
        "a watch without resume",
        "I8",
        [(MemoryStore, "watch", watch_from_now)],
        ("cut-store", "kill-member", "move-stream"),
    ),
    Mutant(
        "a transaction tried again",
        "I7",
        [(MemoryStore, "append", append_again)],
        ("lose-answers", "kill-member", "move-stream"),
        {"fault_seconds": 14.0, "script": LOST_ANSWERS},
    ),
    Mutant(
        "what was not acknowledged is dropped on a re-route",
        "I1",
        [(dispatcher.Dispatcher, "_leave", _drop_unacknowledged)],
        ("kill-cluster",),
    ),
    Mutant("a late writer forgotten", "I11", [(drain, "_taken", _believe_refused)], ("move-stream",)),
    Mutant(
        "a drain without the seal",
        "I11",
        [(drain, "seal", _believe_sealed), (drain, "SEALED", {}), (drain, "_moved_on", _believe_shut)],
        ("move-stream",),
    ),
    Mutant(
        "a cluster called empty while a channel drains",
        "I11",
        [(decommission, "left_on", _left_but_draining), (loop, "left_on", _left_but_draining)],
        ("empty-cluster",),
    ),
    Mutant(
        "an ordered stream consumed as it comes",
        "order",
        [(peers, "_seen", _seen_without_order)],
        ("move-stream", "kill-cluster"),
        {"ordered": True, "handling_seconds": 0.4},
    ),
    Mutant("a snapshot that forgets", "I9", [(events.GroupCodec, "decode_state", forget_epoch)]),
    Mutant(
        "a ban is not heard", "rules", [(constraints.MemberFilter, "row", row_without_bans)], ("operate", "kill-member")
    ),
    Mutant(
        "a drain is not heard",
        "rules",
        [(constraints.MemberFilter, "__init__", sieve_without_drains), (layout, "borne", borne_without_drains)],
        ("operate", "kill-member"),
    ),
    Mutant("the canary is a record", "I2", [(intake_filter, "without_canaries", _with_canaries)], ("move-stream",)),
    Mutant(
        "what a newcomer was given goes home",
        "I14",
        [(homing, "homeward", take_home_again)],
        ("slow-appends", "pause-service"),
        {"exclusive": True, "lease_seconds": 1.0, "fault_interval_seconds": 1.0, "mates": 1, "mated": 1},
        shown_by=3,
    ),
)
