"""The hello of a member: who it is, what it consumes, and how it divides its work."""

from collections.abc import Sequence

from braid.api.assigner.v1 import join_pb2
from braid.client.consumer_settings import ConsumerSettings
from braid.client.consuming.group_spec import group_spec
from braid.client.membership.lease_session import CAPABILITIES, PROTOCOL_VERSION
from braid.kernel.capabilities import WORK_DIVISION


def member_hello(
    settings: ConsumerSettings, client_id: str, zone: str, capabilities: Sequence[str] = (), *, divides_work: bool
) -> join_pb2.MemberHello:
    """Builds the first message of a member.

    Args:
        settings: Of the member.
        client_id: As people see it.
        zone: Where it runs.
        capabilities: What it states besides the usual ones.
        divides_work: Whether the assigner may say how it divides its handlers.
    """
    hello = join_pb2.MemberHello(
        protocol_version=PROTOCOL_VERSION,
        capabilities=(*CAPABILITIES, *capabilities),
        group=settings.group,
        spec=group_spec(settings),
        client_id=client_id,
        zone=zone,
    )
    if divides_work:
        hello.capabilities.append(WORK_DIVISION)
        hello.handlers, hello.max_handlers = settings.handlers, settings.handlers_max
    return hello
