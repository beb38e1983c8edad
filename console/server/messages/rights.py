"""The caller's rights on a stream's records, which the mesh decides by the caller's own token."""

from braid.api.registry.v1 import grant_pb2
from braid.kernel.access.decisions import grant_command
from braid.kernel.access.grants import Grant
from braid.kernel.access.roles import Action, Resource, Role
from braid.kernel.errors import AccessDenied
from braid.rpc.documents import enum_text
from console.server.reads.reader import Reader


async def require(reader: Reader, action: Action, stream: str) -> None:
    """Asks the mesh whether the caller may do something to a stream's records.

    Args:
        reader: Shows the caller's token. The console's own rights never count for somebody else.
        action: `CONSUME` to see records, `PRODUCE` to send them.
        stream: Whose.

    Raises:
        AccessDenied: the caller may not; says which grant is missing, as the command line does.
        BraidError: the mesh does not answer.
    """
    asked = grant_pb2.CheckAccessRequest(verb=action.value, kind="stream", name=stream)
    answer = await reader.one("registry", "CheckAccess", asked, grant_pb2.CheckAccessResponse)
    if answer.allowed or not answer.enforced:
        return
    raise AccessDenied(answer.why, remedy=_remedy(answer), metadata={"principal": answer.principal})


def _remedy(answer: grant_pb2.CheckAccessResponse) -> str:
    if not answer.HasField("missing") or not answer.principal:
        return ""
    missing = answer.missing
    role = enum_text(grant_pb2.AccessRole.DESCRIPTOR, missing.role).replace("_", "-")
    grant = Grant(answer.principal, Role.parse(role, "role"), Resource.parse(missing.resource, "resource"))
    return f"an admin can allow it: {grant_command(grant)}"
