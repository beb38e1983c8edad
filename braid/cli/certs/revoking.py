"""The work of `certs revoke`: asked of the registry, and said in words."""

from typing import Final

from braid.api.registry.v1 import revocation_pb2 as api
from braid.cli.core.asking import ask, require_terminal
from braid.cli.core.session import Session
from braid.cli.core.times import clock_text
from braid.kernel.access.revocations import Revocation

_DRY: Final = " (dry run: nothing was changed)"


async def revoke(session: Session, revocation: Revocation, dry_run: bool, yes: bool) -> int:
    """Has an identity refused everywhere. What follows that its author may not expect is said, and asked about."""
    request = api.RevokeIdentityRequest(
        identity=revocation.identity,
        principal=revocation.principal,
        reason=revocation.reason,
        expire_time_ms=revocation.expire_ms,
        dry_run=dry_run,
    )
    if not request.dry_run:
        await _confirm(session, request, yes)
    doing = f"revoking {request.identity}"
    answer = await session.change("registry", "RevokeIdentity", request, api.RevokeIdentityResponse, doing)
    found = answer.revocation
    of = f" of {found.principal}" if found.principal else ""
    terminal = session.terminal
    terminal.print(f"{found.identity}{of} is revoked: every service refuses it{_DRY if request.dry_run else ''}")
    if found.expire_time_ms:
        terminal.print(f"  the certificate ends by itself at {clock_text(found.expire_time_ms, session.now)}")
    if request.dry_run:
        for each in answer.consequences:
            terminal.note(each)
    return 0


async def lift(session: Session, identity: str, reason: str, dry_run: bool) -> int:
    """Has an identity accepted again."""
    request = api.LiftRevocationRequest(identity=identity, reason=reason, dry_run=dry_run)
    doing = f"lifting the revocation of {identity}"
    lifted = await session.change("registry", "LiftRevocation", request, api.Revocation, doing)
    of = f" of {lifted.principal}" if lifted.principal else ""
    session.terminal.print(f"{lifted.identity}{of} is accepted again{_DRY if dry_run else ''}")
    return 0


async def _confirm(session: Session, request: api.RevokeIdentityRequest, yes: bool) -> None:
    """Asks the mesh what follows, and then the person, unless nothing unexpected does.

    Raises:
        Invalid: nobody can be asked, and --yes is missing.
        Refused: the person said no.
    """
    request.confirmed = yes
    if yes:
        return
    asked = api.RevokeIdentityRequest()
    asked.CopyFrom(request)
    asked.dry_run = True
    doing = f"asking what follows for {request.identity}"
    follows = (
        await session.change("registry", "RevokeIdentity", asked, api.RevokeIdentityResponse, doing)
    ).consequences
    if not follows:
        return
    for each in follows:
        session.terminal.note(each)
    require_terminal(yes, f"revoke {request.identity}")
    ask(f"Revoke {request.identity}?", f"{request.identity} was not revoked")
    request.confirmed = True
