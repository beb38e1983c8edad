"""Approvals and their policies as items to show; a policy's document is a manifest that `apply` takes."""

from typing import Final

from braid.api.registry.v1 import approval_pb2 as api
from braid.cli.core.documents import Document, enum_text, to_document
from braid.cli.core.kinds import Scope
from braid.cli.core.output import API_VERSION, Column, Columns, Item
from braid.cli.core.session import Session
from braid.kernel.limits.names import PAGE_SIZE_MAX

COLUMNS: Final = Columns(
    (
        Column("STATE"),
        Column("WHAT", shrinks=True),
        Column("ASKED-BY", shrinks=True),
        Column("LEFT"),
        Column("DECIDED-BY", wide=True),
        Column("REASON", wide=True),
    )
)
POLICY_COLUMNS: Final = Columns(
    (
        Column("VERBS", shrinks=True),
        Column("ON", shrinks=True),
        Column("EXPIRES"),
        Column("LETTERS-OVER", wide=True),
        Column("BY", wide=True),
        Column("REASON", wide=True),
    )
)


async def list_approvals(session: Session, scope: Scope) -> list[Item]:
    """Approvals in the order in which they were asked for; a name in the scope is an id."""
    found = await session.pages(
        "registry",
        "ListApprovals",
        lambda token: api.ListApprovalsRequest(page_size=PAGE_SIZE_MAX, page_token=token),
        api.ListApprovalsResponse,
        lambda page: page.approvals,
    )
    return [approval_item(each) for each in found]


async def list_policies(session: Session, scope: Scope) -> list[Item]:
    """Approval policies by name."""
    found = await session.pages(
        "registry",
        "ListApprovalPolicies",
        lambda token: api.ListApprovalPoliciesRequest(page_size=PAGE_SIZE_MAX, page_token=token),
        api.ListApprovalPoliciesResponse,
        lambda page: page.policies,
    )
    return [policy_item(each) for each in found]


def approval_item(approval: api.Approval) -> Item:
    """An approval's row and document."""
    request = approval.request
    cells = (
        enum_text(api.ApprovalState.DESCRIPTOR, approval.state).upper(),
        what_text(approval),
        request.asked_by,
        left_text(approval),
        approval.decided_by or "-",
        approval.reason,
    )
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "Approval",
        "metadata": {"name": approval.id, "create_time_ms": approval.ask_time_ms},
        "spec": to_document(request),
        "status": {
            "state": cells[0],
            "decided_by": approval.decided_by,
            "reason": approval.reason,
            "used_by_request_id": approval.used_by_request_id,
            "left_ms": approval.left_ms,
        },
    }
    return Item(approval.id, f"approval/{approval.id}", cells, approval.ask_time_ms, document)


def policy_item(policy: api.ApprovalPolicy) -> Item:
    """A policy's row; its document is a manifest."""
    spec = policy.spec
    cells = (
        ",".join(verb_text(each) for each in spec.verbs),
        spec.resource or "mesh",
        f"{spec.expire_seconds} s",
        str(spec.letters_over) if spec.letters_over else "-",
        policy.set_by,
        spec.reason,
    )
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "ApprovalPolicy",
        "metadata": {"name": policy.name, "create_time_ms": policy.set_time_ms},
        "spec": to_document(spec),
        "status": {"set_by": policy.set_by},
    }
    return Item(policy.name, f"approvalpolicy/{policy.name}", cells, policy.set_time_ms, document)


def what_text(approval: api.Approval) -> str:
    """The request as a command, with its number of dead letters."""
    request = approval.request
    what = request.command or ", ".join(verb_text(each) for each in request.verbs)
    letters = f" ({request.letters} dead letters)" if request.letters else ""
    return f"{what}{letters}"


def left_text(approval: api.Approval) -> str:
    """The time that is left until it expires: `59 min`, or `-`."""
    return f"{max(1, round(approval.left_ms / 60_000))} min" if approval.left_ms else "-"


def verb_text(verb: "api.GuardedVerb.ValueType") -> str:
    """A verb in its typed form: `delete-stream`."""
    return enum_text(api.GuardedVerb.DESCRIPTOR, verb).replace("_", "-")
