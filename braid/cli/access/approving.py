"""The work of `approve`: shows what somebody asked for, and sends the decision to the registry."""

from braid.api.registry.v1 import approval_pb2 as api
from braid.cli.core.asking import ask, require_terminal
from braid.cli.core.session import Session
from braid.cli.resources.access.approvals import left_text, what_text


async def decide(session: Session, id: str, refused: bool, reason: str, dry_run: bool, yes: bool) -> int:
    """Approves or refuses a request, once the user has seen what it is."""
    verb, request = ("refuse", "refusing") if refused else ("approve", "approving")
    asked = await _send(session, api.DecideApprovalRequest(id=id, refused=refused, reason=reason, dry_run=True), verb)
    terminal = session.terminal
    terminal.print(f"{asked.request.asked_by} asks for: {what_text(asked)}")
    if dry_run:
        terminal.print(f"{id} {left_text(asked)} (dry run: nothing was changed)")
        return 0
    if not yes:
        require_terminal(yes, f"{verb} {id}")
        ask(f"{verb.capitalize()} it?", f"{id} stays as it is")
    decision = api.DecideApprovalRequest(id=id, refused=refused, reason=reason)
    decided = await _send(session, decision, f"{request} {id}")
    if refused:
        terminal.print(f"{id} refused: nothing is done")
    else:
        terminal.print(f"{id} approved: {decided.request.asked_by} repeats the command within {left_text(decided)}")
    return 0


async def _send(session: Session, request: api.DecideApprovalRequest, doing: str) -> api.Approval:
    return await session.change("registry", "DecideApproval", request, api.Approval, doing)
