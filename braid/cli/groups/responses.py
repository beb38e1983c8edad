"""`set responses`: how a group answers lag by itself."""

from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.cli.core.times import parse_duration
from braid.cli.resources.group_responses import policies_text
from braid.kernel.errors import Invalid

if TYPE_CHECKING:
    from braid.api.assigner.v1.responses_pb2 import ResponseKind, ResponseMode, ResponsePolicy
    from braid.cli.core.session import Session

_RESPONSES: Final = """Say how a group answers lag by itself: with larger shares, more handlers or split backlogs.

\b
  braid set responses indexer shift-shares propose            record and show what would be done
  braid set responses indexer shift-shares automatic          do it, and undo it when lag has healed
  braid set responses indexer shift-shares automatic --lane live --reach 0.9
  braid set responses indexer raise-concurrency automatic --reach 2
  braid set responses indexer split-backlog automatic --budget 2
  braid set responses indexer shift-shares off                undo what is in force
"""
KINDS: Final = ("shift-shares", "split-backlog", "raise-concurrency", "leave-slow-members")
_MODES: Final = ("off", "propose", "automatic")

_Group = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
_Kind = Annotated[str, typer.Argument(metavar="KIND", show_default=False, help=f"One of {', '.join(KINDS)}.")]
_Mode = Annotated[str, typer.Argument(metavar="MODE", show_default=False)]
_Lane = Annotated[str, typer.Option("--lane", metavar="LANE", help="Only this lane; all lanes by default.")]
_Budget = Annotated[int | None, typer.Option("--budget", metavar="N", help="At most so many in force at once.")]
_Reach = Annotated[
    float | None,
    typer.Option("--reach", help="How far it goes: a part of the handlers, a share of the backlog, or a factor."),
]
_Cooldown = Annotated[str, typer.Option("--cooldown", metavar="TIME", help="Time between two changes; 10s by default.")]
_UndoAfter = Annotated[
    str, typer.Option("--undo-after", metavar="TIME", help="Undo it after this time of calm; 30s by default.")
]


def register(settings: typer.Typer) -> None:
    """Adds the setting to the application."""
    settings.command("responses", help=_RESPONSES)(_set_responses)


def parse_response(
    kind: str, mode: str, lane: str, budget: int | None, reach: float | None, cooldown: str, undo_after: str
) -> "ResponsePolicy":
    """Parses a response policy. Raises `Invalid`."""
    from braid.api.assigner.v1.responses_pb2 import ResponsePolicy

    if kind not in KINDS:
        raise Invalid(f"{kind!r} is no response", field="KIND", remedy=f"use {', '.join(KINDS)}")
    if mode not in _MODES:
        raise Invalid(f"{mode!r} is no mode", field="MODE", remedy=f"use {', '.join(_MODES)}")
    policy = ResponsePolicy(
        kind=cast("ResponseKind.ValueType", KINDS.index(kind) + 1),
        lane=lane,
        mode=cast("ResponseMode.ValueType", _MODES.index(mode) + 1),
        budget=budget,
        reach=reach,
    )
    if cooldown:
        policy.cooldown_seconds = parse_duration(cooldown, "--cooldown") / 1000
    if undo_after:
        policy.undo_after_seconds = parse_duration(undo_after, "--undo-after") / 1000
    return policy


def _set_responses(
    group: _Group,
    kind: _Kind,
    mode: _Mode,
    lane: _Lane = "",
    budget: _Budget = None,
    reach: _Reach = None,
    cooldown: _Cooldown = "",
    undo_after: _UndoAfter = "",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    policy = parse_response(kind, mode, lane, budget, reach, cooldown, undo_after)
    execute(endpoint, context, lambda session: _change_responses(session, group, policy))


async def _change_responses(session: "Session", group: str, policy: "ResponsePolicy") -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import SetResponsesRequest
    from braid.cli.core.documents import to_document
    from braid.cli.groups.changes import change, say

    request = SetResponsesRequest(group=group, policies=[policy])
    told = await change(session, "SetResponses", request, f"changing {group}", "")
    return say(session, told, f"group/{group} responses: {policies_text(to_document(told.responses))}")
