"""The work of `grant`, `revoke` and `can-i`: sends the requests to the registry and prints the answers."""

from braid.api.registry.v1 import grant_pb2 as api
from braid.cli.core.documents import to_document
from braid.cli.core.output import Format, render_document
from braid.cli.core.session import Session
from braid.cli.errors import EXIT_DIFFERENT
from braid.cli.resources.access.grants import end_text, role_number, role_text
from braid.kernel.access.decisions import grant_command
from braid.kernel.access.grants import Grant
from braid.kernel.access.roles import Action, Resource, ResourceKind, Role


async def give(session: Session, grant: Grant, expire_ms: int, lasting_ms: int, dry_run: bool) -> int:
    """Grants a role, and prints until when it is valid."""
    spec = api.GrantSpec(
        principal=grant.principal,
        role=role_number(grant.role.value),
        resource=_resource_text(grant.resource),
        expire_time_ms=expire_ms,
        reason=grant.reason,
    )
    request = api.GrantAccessRequest(spec=spec, lasting_ms=lasting_ms, dry_run=dry_run)
    given = await session.change("registry", "GrantAccess", request, api.Grant, f"granting {grant}")
    ends = f", {end_text(given, session.now)}" if given.spec.expire_time_ms else ""
    suffix = " (dry run: nothing was changed)" if dry_run else ""
    session.terminal.print(f"{grant.principal} is {grant}{ends}{suffix}")
    return 0


async def take(session: Session, grant: Grant) -> int:
    """Revokes a role and prints the result."""
    request = api.RevokeAccessRequest(
        principal=grant.principal,
        role=role_number(grant.role.value),
        resource=_resource_text(grant.resource),
        reason=grant.reason,
    )
    await session.change("registry", "RevokeAccess", request, api.Grant, f"revoking {grant}")
    session.terminal.print(f"{grant.principal} is no longer {grant}")
    return 0


async def explain(session: Session, verb: str, kind: str, name: str, principal: str, format: Format) -> int:
    """Prints whether an action is allowed, and which grant allows it or is missing. Returns 1 if it is not."""
    request = api.CheckAccessRequest(principal=principal, verb=verb, kind=kind, name=name)
    answer = await session.read("registry", "CheckAccess", request, api.CheckAccessResponse)
    if format is not Format.TABLE:
        session.terminal.print(render_document(format, to_document(answer)))
    else:
        session.terminal.print("\n".join([*_story(session, answer), *_beside(verb, kind, answer)]))
    return 0 if answer.allowed else EXIT_DIFFERENT


def _story(session: Session, answer: api.CheckAccessResponse) -> list[str]:
    lines = [f"{'yes' if answer.allowed else 'no'}: {answer.why}"]
    if answer.HasField("grant"):
        given = answer.grant
        ends = f", {end_text(given, session.now)}" if given.spec.expire_time_ms else ""
        reason = f": {given.spec.reason}" if given.spec.reason else ""
        lines.append(f"  granted by {given.granted_by or 'nobody known'}{ends}{reason}")
    if answer.HasField("missing") and answer.principal:
        lines.append(f"  an admin can allow it: {grant_command(_read(answer.missing))}")
    if answer.allowed and answer.approval_policies:
        policies = ", ".join(answer.approval_policies)
        lines.append(f"  a second person may have to approve it, by policy {policies}: braid get approvalpolicies")
    if not answer.enforced:
        session.terminal.note("access is open: nothing is refused before BRAID_ACCESS is enforced")
    return lines


def _beside(verb: str, kind: str, answer: api.CheckAccessResponse) -> list[str]:
    """The way to a stream's records that no right of Braid's is about."""
    if answer.allowed or (verb.lower(), kind.lower()) != (Action.CONSUME.value, ResourceKind.STREAM.value):
        return []
    return [
        "  this is about groups: reading without one (braid consume STREAM) takes the right to view the stream;",
        "  who gets its records then is up to Kafka's own ACLs: braid acls --help",
    ]


def _read(spec: api.GrantSpec) -> Grant:
    role = next(role for role in Role if role.value == role_text(spec.role))
    kind, _, name = spec.resource.partition("/")
    resource = Resource(ResourceKind(kind or "mesh"), name)
    return Grant(spec.principal, role, resource)


def _resource_text(resource: Resource) -> str:
    return "" if resource.kind is ResourceKind.MESH else str(resource)
