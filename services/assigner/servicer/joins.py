"""Joins members: reads the hello, waits for the member's turn, registers it, and opens its session."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from braid.api.assigner.v1 import join_pb2
from braid.kernel.errors import Invalid, LeaseLost
from braid.kernel.ids import check_name
from braid.kernel.limits.assigner.leases import JOIN_TURN_SECONDS, QUEUE_NOTICE_SECONDS, REGISTRATIONS_AT_ONCE
from braid.kernel.limits.rpc import HELLO_SECONDS
from braid.kernel.ports import Caller, DuplexServing
from braid.runtime.histories.kinds import Asked
from braid.runtime.replica import Replica
from services.assigner.codec.joins import handlers_of, hello_of, read_findings, read_splits
from services.assigner.domain.admission import (
    BEATS,
    GENERATIONS,
    QUEUED,
    SECRET,
    check_owner,
    check_spec,
)
from services.assigner.domain.decide import registered_spec
from services.assigner.domain.secrets import SECRET_BYTES, digest_of
from services.assigner.liveness.member_streams import MemberKey
from services.assigner.liveness.tickets import Tickets, origin_of
from services.assigner.model import backlog_splits, stopped_lanes
from services.assigner.model.channels import ChannelView
from services.assigner.model.commands import (
    Command,
    JoinMember,
)
from services.assigner.model.group import Fencing, GroupSpec
from services.assigner.peers import RegistryFollower
from services.assigner.reconciler.deleted_streams import streams_deleted
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.reconciler.join_queue import JoinQueue
from services.assigner.reconciler.term import Term
from services.assigner.servicer.group_quotas import GroupQuotas
from services.assigner.servicer.group_specs import read_wishes
from services.assigner.servicer.member_session import MemberSession
from services.assigner.servicer.namesakes import Namesakes


class Joins:
    """Serves the Join streams of members."""

    def __init__(
        self,
        replica: Replica,
        registry: RegistryFollower,
        tickets: "Tickets[MemberSession]",
        term: Callable[[], Term],
        quotas: GroupQuotas,
    ) -> None:
        """`term` returns the present term, or raises `NotLeader`."""
        self._replica = replica
        self._registry = registry
        self._tickets = tickets
        self._term = term
        self._quotas = quotas
        self._queue = JoinQueue(replica)
        self._namesakes = Namesakes()
        self._registering = asyncio.Semaphore(REGISTRATIONS_AT_ONCE)

    async def serve(self, stream: DuplexServing) -> None:
        """Serves one stream until either side ends it.

        Raises:
            BraidError: why the member cannot join, or why it must join again.
        """
        term = self._term()
        message = await self._hello(stream)
        name = check_name(message.group, "hello.group")
        key = MemberKey(name, message.member_id or self._replica.host.ids.ulid())
        secret = b"" if message.member_id or SECRET not in message.capabilities else self._new_secret()
        shown = digest_of(secret or message.resume_secret)
        self._check_owner(key, stream.caller, shown)
        term.greet(key)
        try:
            kept = await self._join(term, key, message, stream, shown)
            session = self._attach(term, key, message, kept, stream, secret)
        finally:
            term.joined(key)
        try:
            await session.serve()
        finally:
            self._tickets.void(origin_of(stream.caller), session.ticket)
            self._namesakes.leave(message.client_id, session)
            term.detach(key, session, left=session.left, returns=session.returns)
            await session.written()

    def _new_secret(self) -> bytes:
        return self._replica.host.randomness.entropy(SECRET_BYTES)

    def _check_owner(self, key: MemberKey, caller: Caller, secret_digest: str) -> None:
        """Raises `Unauthenticated` for a stranger, before its hello keeps the member's leases alive."""
        state = self._replica.aggregates.state(GROUPS, key.group)
        check_owner(state, key.member, caller.principal if caller.authenticated else "", secret_digest)

    async def _hello(self, stream: DuplexServing) -> join_pb2.MemberHello:
        message = await stream.receive()
        if not isinstance(message, join_pb2.JoinRequest) or message.WhichOneof("message") != "hello":
            raise Invalid("the first message is the hello", field="message")
        return message.hello

    async def _join(
        self, term: Term, key: MemberKey, message: join_pb2.MemberHello, stream: DuplexServing, secret_digest: str
    ) -> frozenset[tuple[str, int]]:
        """Has the join decided, if quotas allow it; returns the leases the member says it holds."""
        with self._quotas.promised(key.group, stream.caller.tenant, key.member):
            return await self._decide(term, key, message, stream, secret_digest)

    async def _decide(
        self, term: Term, key: MemberKey, message: join_pb2.MemberHello, stream: DuplexServing, secret_digest: str
    ) -> frozenset[tuple[str, int]]:
        spec, unsaid = read_wishes(message.spec)
        if "fencing" in unsaid and GENERATIONS not in message.capabilities:
            spec = replace(spec, fencing=Fencing.NONE)
        view = await self._seen(term, key.group, spec)
        held = tuple((each.lease, each.epoch) for each in message.held)
        caller, who = stream.caller, message.client_id or key.member
        command = JoinMember(hello_of(message, key.member, caller, held, secret_digest), spec, unsaid, view)
        await term.admit(key)
        asked: Asked[Command] = Asked(command, caller.principal or who, caller.tenant, cause=f"hello of {who}")
        decided = self._queue.enter(key.group, asked, lambda: stream.over)
        try:
            await self._told_to_wait(decided, message, stream)
        finally:
            decided.cancel()
        decided.result()
        return frozenset(held)

    async def _seen(self, term: Term, group: str, spec: GroupSpec) -> ChannelView | None:
        """Returns the channels for a join that registers its group, if the group's name is free on their clusters.

        Raises:
            NotFound: the group is registered, and all its streams were deleted.
        """
        registered = self._replica.aggregates.state(GROUPS, group).spec
        if registered is not None:
            if registered.streams == spec.streams and await self._registry.deleted(spec.streams):
                raise streams_deleted(group, spec.streams)
            return None
        async with self._registering:
            if self._replica.aggregates.state(GROUPS, group).spec is not None:
                return None
            check_spec(spec)
            view = (await self._registry.view_with(spec.streams)).of(spec.streams)
            await term.check_vacant(group, spec, view)
            return view

    async def _told_to_wait(
        self, decided: "asyncio.Future[None]", message: join_pb2.MemberHello, stream: DuplexServing
    ) -> None:
        """Waits for the member's turn; tells it to wait, too, if that may take a while."""
        seconds = QUEUE_NOTICE_SECONDS
        while not (await asyncio.wait((decided,), timeout=seconds))[0]:
            seconds = max(2 * seconds, len(self._queue) * JOIN_TURN_SECONDS)
            if QUEUED in message.capabilities:  # told anew when half of it has passed
                queued = join_pb2.Queued(wait_ms=int(1_000 * (2 * seconds + HELLO_SECONDS)))
                await stream.send(join_pb2.JoinResponse(queued=queued))

    def _attach(
        self,
        term: Term,
        key: MemberKey,
        message: join_pb2.MemberHello,
        held: frozenset[tuple[str, int]],
        stream: DuplexServing,
        secret: bytes,
    ) -> "MemberSession":
        """Attaches the session in one step: the member is told the present state, and then each change."""
        state = self._replica.aggregates.state(GROUPS, key.group)
        if key.member not in state.members or not term.valid():
            raise LeaseLost("the membership ended while it began", remedy="join again")
        session = MemberSession(
            self._replica, self._registry, term, key, registered_spec(state), stream, handlers_of(message)
        )
        if BEATS in message.capabilities:
            session.ticket = self._tickets.issue(origin_of(stream.caller), session)
        session.welcome(state, held, self._namesakes.enter(message.client_id, session), secret)
        term.attach(key, session)
        for lane in stopped_lanes.asked(state, key.member, message.stopped):
            session.resume(lane)
        term.keeper(key.group).stopped(key.member, message.stopped)
        for each in backlog_splits.asked(state, key.member):
            session.split(each)
        term.keeper(key.group).divided(key.member, read_splits(message.splits))
        term.keeper(key.group).found(key.member, read_findings(message.found))
        return session


# --- messages
