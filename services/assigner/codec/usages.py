"""Messages about the usage and the slowness of members."""

from collections.abc import Sequence

from braid.api.assigner.v1 import beat_pb2, group_pb2, join_pb2
from services.assigner.model.group import Group
from services.assigner.model.lag.responses import ResponseKind
from services.assigner.policy.measured_loads import Sample
from services.assigner.policy.member_work import ToldWork, Usage
from services.assigner.policy.slow_members import slow_parts


def read_load(told: join_pb2.Heartbeat | beat_pb2.MemberNews) -> tuple[Sequence[Sample], ToldWork | None]:
    """Reads what a member measured of its leases, and of itself; None where it does not measure CPU time."""
    samples = [
        Sample(each.lease, each.records, each.bytes, each.busy_micros, each.cpu_micros, each.lost_micros)
        for each in told.loads
    ]
    if not told.HasField("work"):
        return samples, None
    return samples, ToldWork(told.work.cores, told.work.handlers, told.work.cpu_micros, told.work.delay_micros)


def usage_message(usage: Usage) -> group_pb2.MemberUsage:
    """Builds the message of a member's usage."""
    return group_pb2.MemberUsage(
        cores=usage.cores,
        handlers=usage.handlers,
        process_per_s=usage.process_per_s,
        cpu_per_s=usage.cpu_per_s,
        wait_per_s=usage.wait_per_s,
        delay_per_s=usage.delay_per_s,
    )


def slow_message(state: Group, member: str) -> group_pb2.SlowMember | None:
    """Builds the message of a member that counts as slow; None of any other."""
    part = slow_parts(state).get(member)
    if part is None:
        return None
    taken = next(each for each in state.responses.applied(ResponseKind.LEAVE_SLOW_MEMBERS) if each.subject == member)
    return group_pb2.SlowMember(part=part, reason=taken.reason, since_ms=taken.since_ms)
