"""The one decision on access: who may do what, why, and which grant is missing. Default is refusal."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from braid.kernel.access.grants import Grant, Rights
from braid.kernel.access.roles import Action, Resource, ResourceKind, Role, role_allows

# From the least to the most: what is missing is told as the first of them that would do.
_LEAST_FIRST: Final = (
    Role.VIEWER,
    Role.PRODUCER,
    Role.CONSUMER,
    Role.OPERATOR,
    Role.STREAM_OWNER,
    Role.ADMIN,
)


class Decision(NamedTuple):
    """The decision on one action and one resource.

    Attributes:
        allowed: Whether it may.
        why: The reason, for people.
        grant: What allows it; None when that is no grant, or it is refused.
        missing: The smallest grant that would allow it; None when it is allowed, or no grant would.
    """

    allowed: bool
    why: str
    grant: Grant | None = None
    missing: Grant | None = None


def decide(rights: Rights, principal: str, action: Action, resource: Resource, now_ms: int) -> Decision:
    """Decides whether a verified principal may do something to a resource.

    Args:
        rights: All grants, and who needs none.
        principal: Who asks.
        action: What it would do.
        resource: To what; `*` as a name stands for all of the kind.
        now_ms: Wall clock, milliseconds since the epoch: grants end by it.
    """
    if action is Action.CONNECT:
        return Decision(True, "every authenticated caller may connect")
    if rights.services.includes(principal) and role_allows(Role.SERVICE, action, resource.kind):
        return Decision(True, f"{principal} is a service of the mesh")
    if principal in rights.admins and role_allows(Role.ADMIN, action, resource.kind):
        return Decision(True, f"{principal} is an admin by the services' settings")
    ended: Grant | None = None
    for grant in rights.grants.get(principal, ()):
        if not role_allows(grant.role, action, resource.kind) or not grant.resource.covers(resource):
            continue
        if grant.holds(now_ms):
            return Decision(True, f"{principal} is {grant}", grant)
        ended = grant
    missing = missing_grant(principal, action, resource)
    return Decision(False, _refusal(principal, action, resource, ended, missing), None, missing)


def missing_grant(principal: str, action: Action, resource: Resource) -> Grant | None:
    """The grant with the least rights that would allow an action; None when no grant does."""
    for role in _LEAST_FIRST:
        if role_allows(role, action, resource.kind):
            scope = resource
            if resource.kind is ResourceKind.ANYTHING:
                scope = Resource(ResourceKind.GROUP if action is Action.CONSUME else ResourceKind.STREAM, "NAME")
            return Grant(principal, role, scope)
    return None


def grant_command(grant: Grant) -> str:
    """The command line that gives a grant."""
    on = "" if grant.resource.kind is ResourceKind.MESH else f" --on {_quoted(str(grant.resource))}"
    return f"braid grant {grant.role.value} --to {grant.principal}{on}"


def first_refused(decisions: Iterable[Decision]) -> Decision | None:
    """The first refusal among decisions that must all allow; None when all do."""
    return next((each for each in decisions if not each.allowed), None)


def _refusal(principal: str, action: Action, resource: Resource, ended: Grant | None, missing: Grant | None) -> str:
    what = f"{principal or 'nobody'} may not {action.value} {_object(resource)}"
    if ended is not None:
        return f"{what}: its grant as {ended} has ended"
    if missing is None:
        return f"{what}: only services of the mesh may"
    return f"{what}: it is not {missing}"


def _object(resource: Resource) -> str:
    match resource.kind:
        case ResourceKind.MESH:
            return "the mesh"
        case ResourceKind.ANYTHING:
            return "anything"
        case _ if resource.name == "*":
            return f"every {resource.kind.value}"
        case _:
            return str(resource)


def _quoted(text: str) -> str:
    return f"'{text}'" if "*" in text else text
