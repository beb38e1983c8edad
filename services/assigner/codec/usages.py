"""What a member uses, and how slow it is, as messages."""

from braid.api.assigner.v1 import group_pb2
from services.assigner.model.group import Group
from services.assigner.model.responses import ResponseKind
from services.assigner.policy.member_work import Usage
from services.assigner.policy.slow_members import slow_parts


def usage_message(usage: Usage) -> group_pb2.MemberUsage:
    """Builds the message of a member's usage."""
    return group_pb2.MemberUsage(
        cores=usage.cores,
        handlers=usage.handlers,
        process_per_s=usage.process_per_s,
        cpu_per_s=usage.cpu_per_s,
        wait_per_s=usage.wait_per_s,
    )


def slow_message(state: Group, member: str) -> group_pb2.SlowMember | None:
    """Builds the message of a member that counts as slow; None of any other."""
    part = slow_parts(state).get(member)
    if part is None:
        return None
    taken = next(each for each in state.responses.applied(ResponseKind.LEAVE_SLOW_MEMBERS) if each.subject == member)
    return group_pb2.SlowMember(part=part, reason=taken.reason, since_ms=taken.since_ms)
