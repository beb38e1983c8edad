"""Converts what a member says on its Join stream between messages and values."""

from collections.abc import Iterable, Sequence

from braid.api.assigner.v1 import join_pb2
from braid.kernel.capabilities import WORK_DIVISION
from braid.kernel.limits.assigner.responses import MEMBER_HANDLERS_MAX
from braid.kernel.ports import Caller
from services.assigner.model.backlog_splits import ToldSplit
from services.assigner.model.commands import Hello
from services.assigner.model.events import LeaseGrant
from services.assigner.model.group import Channel, Split, partition_of
from services.assigner.model.lag.responses import MemberHandlers, WorkDivision
from services.assigner.model.progress_findings import ProgressDoubted


def read_splits(messages: Iterable[join_pb2.SplitLease]) -> Sequence[ToldSplit]:
    """Reads a member's report of the leases it has split."""
    return [ToldSplit(each.lease, each.epoch, each.at, each.share, each.refused) for each in messages]


def read_findings(messages: Iterable[join_pb2.RestoreFindings]) -> Sequence[ProgressDoubted]:
    """Reads a member's findings about committed progress."""
    return [
        ProgressDoubted(told.lease, told.epoch, each.kind, each.start, each.end, each.reason)
        for told in messages
        for each in told.findings
    ]


def wish_message(split: Split) -> join_pb2.JoinResponse:
    """Builds the request to a lease's holder to split it."""
    asked = join_pb2.SplitBacklog(lease=split.lease, epoch=split.epoch, share=split.share, relaxed=split.relaxed)
    return join_pb2.JoinResponse(split=asked)


def work_message(work: WorkDivision) -> join_pb2.WorkDivision:
    """Builds the message that says how a member is to divide its work."""
    return join_pb2.WorkDivision(revision=work.revision, shares=work.shares, concurrency=work.concurrency)


def handlers_of(hello: join_pb2.MemberHello) -> MemberHandlers | None:
    """Reads the handlers of a member that divides them as it is told; None for any other. It may say anything."""
    if WORK_DIVISION not in hello.capabilities:
        return None
    now = min(max(hello.handlers, 0), MEMBER_HANDLERS_MAX)
    return MemberHandlers(now, min(max(hello.max_handlers, now), MEMBER_HANDLERS_MAX))


def hello_of(
    message: join_pb2.MemberHello, member: str, caller: Caller, held: tuple[tuple[str, int], ...], secret_digest: str
) -> Hello:
    """Reads the hello of a member that gets this id."""
    return Hello(
        member,
        message.client_id,
        message.zone,
        message.capacity,
        message.protocol_version,
        tuple(message.capabilities),
        caller.peer,
        held,
        caller.principal if caller.authenticated else "",
        secret_digest,
    )


def grant_message(grant: LeaseGrant, channel: Channel) -> join_pb2.GrantedLease:
    """Builds the message that grants a member a lease."""
    return join_pb2.GrantedLease(
        lease=grant.lease, topic=channel.topic, partition=partition_of(grant.lease), epoch=grant.epoch
    )
