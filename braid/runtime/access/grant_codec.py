"""Events of kind `grants` ⇄ protobuf at rest (`registry/v1/grant.proto`); states ⇄ bytes for snapshots."""

from collections.abc import Mapping
from typing import Final

from braid.api.registry.v1 import grant_pb2 as pb
from braid.kernel.access.grants import Grant, by_principal
from braid.kernel.access.roles import Resource, ResourceKind, Role
from braid.kernel.errors import CorruptHistory, Invalid
from braid.runtime.access.grant_history import AccessGranted, AccessRevoked, Command, Event, GrantsDecider, GrantsState
from braid.runtime.histories.kinds import Kind
from braid.runtime.histories.message_codec import MessageCodec

_ROLES: Final[Mapping[Role, "pb.AccessRole.ValueType"]] = {
    Role.VIEWER: pb.ACCESS_ROLE_VIEWER,
    Role.PRODUCER: pb.ACCESS_ROLE_PRODUCER,
    Role.CONSUMER: pb.ACCESS_ROLE_CONSUMER,
    Role.OPERATOR: pb.ACCESS_ROLE_OPERATOR,
    Role.STREAM_OWNER: pb.ACCESS_ROLE_STREAM_OWNER,
    Role.ADMIN: pb.ACCESS_ROLE_ADMIN,
}
_BY_NUMBER: Final = {number: role for role, number in _ROLES.items()}


def grant_message(grant: Grant, now_ms: int = 0) -> pb.Grant:
    """A grant as a message; with the present time it says whether it has ended."""
    return pb.Grant(
        spec=grant_spec(grant),
        granted_by=grant.granted_by,
        grant_time_ms=grant.granted_ms,
        ended=bool(now_ms) and not grant.holds(now_ms),
    )


def grant_spec(grant: Grant) -> pb.GrantSpec:
    """Returns a grant's declaration, as a message."""
    return pb.GrantSpec(
        principal=grant.principal,
        role=_ROLES[grant.role],
        resource=resource_text(grant.resource),
        expire_time_ms=grant.expire_ms,
        reason=grant.reason,
    )


def read_grant(message: pb.Grant) -> Grant:
    """Reads `grant_message`'s message. Raises `Invalid`."""
    spec = message.spec
    role, resource = read_role(spec.role, "spec.role"), Resource.parse(spec.resource, "spec.resource")
    return Grant(
        spec.principal, role, resource, spec.expire_time_ms, spec.reason, message.granted_by, message.grant_time_ms
    )


def read_role(number: "pb.AccessRole.ValueType", field: str) -> Role:
    """The role of a number. Raises `Invalid` for one that this release does not know."""
    role = _BY_NUMBER.get(number)
    if role is None:
        raise Invalid("a role is missing, or unknown to this release", field=field, remedy="name a role")
    return role


def resource_text(resource: Resource) -> str:
    """A resource as grants at rest write it: empty for the mesh."""
    return "" if resource.kind is ResourceKind.MESH else str(resource)


def _message(event: Event) -> pb.AccessEvent:
    match event:
        case AccessGranted(principal, role, resource, expire_ms, reason):
            return pb.AccessEvent(
                access_granted=pb.AccessGranted(spec=grant_spec(Grant(principal, role, resource, expire_ms, reason)))
            )
        case AccessRevoked(principal, role, resource, reason):
            text = resource_text(resource)
            revoked = pb.AccessRevoked(principal=principal, role=_ROLES[role], resource=text, reason=reason)
            return pb.AccessEvent(access_revoked=revoked)


def _event(message: pb.AccessEvent) -> Event:
    match message.WhichOneof("event"):
        case "access_granted":
            grant = read_grant(pb.Grant(spec=message.access_granted.spec))
            return AccessGranted(grant.principal, grant.role, grant.resource, grant.expire_ms, grant.reason)
        case "access_revoked":
            revoked = message.access_revoked
            role, resource = read_role(revoked.role, "role"), Resource.parse(revoked.resource, "resource")
            return AccessRevoked(revoked.principal, role, resource, revoked.reason)
        case _:
            raise CorruptHistory("the event is of an unknown type", remedy="run a newer release")


def _state_message(state: GrantsState) -> pb.ListGrantsResponse:
    return pb.ListGrantsResponse(grants=map(grant_message, state.all()))


def _state(message: pb.ListGrantsResponse) -> GrantsState:
    grants = [read_grant(each) for each in message.grants]
    return GrantsState({name: tuple(held) for name, held in by_principal(grants).items()}, len(grants))


GRANTS: Final[Kind[GrantsState, Command, Event]] = Kind(
    "grants",
    GrantsDecider(),
    MessageCodec(pb.AccessEvent, _message, _event, pb.ListGrantsResponse, _state_message, _state),
)
