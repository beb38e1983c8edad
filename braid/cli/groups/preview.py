"""`preview`: a group's placement, or load between clusters, under assumed changes. Changes nothing."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, DocumentOption, EndpointOption, execute
from braid.cli.core.kinds import CLUSTER, GROUP, parse_kind
from braid.cli.core.output import Format, parse_format, render_document
from braid.cli.core.times import age_text
from braid.cli.groups.policies import parse_policy
from braid.cli.resources.group_rules import policy_text
from braid.kernel.errors import Invalid
from braid.kernel.limits.assigner.placement import CLI_MOVES_SHOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from braid.api.assigner.v1.assigner_service_pb2 import MemberLoad, PreviewPlacementResponse, ShadowComparison
    from braid.api.assigner.v1.rules_pb2 import PlacementPolicy
    from braid.cli.core.session import Session

_PREVIEW: Final = """Show which leases or streams would move if members left or clusters changed. Nothing moves.

\b
  braid preview group indexer --without web-1
  braid preview group indexer --without-cluster east
  braid preview group indexer --capacity web-2=4.0     busy seconds a second
  braid preview group indexer                          what is on its way now, and what its shadow would do
  braid preview group indexer --policy count           were numbers evened out
  braid preview clusters                               which streams would even out load between clusters
  braid preview clusters --without east --new north    were one gone, and another there
"""


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    app.command("preview", help=_PREVIEW)(_preview)


def _preview(
    type_: Annotated[str, typer.Argument(metavar="TYPE", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="[NAME]", show_default=False)] = "",
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="NAME", help="A member or cluster that left; may be repeated."),
    ] = None,
    without_cluster: Annotated[
        list[str] | None,
        typer.Option("--without-cluster", metavar="CLUSTER", help="A cluster that died; may be repeated."),
    ] = None,
    new: Annotated[
        list[str] | None, typer.Option("--new", metavar="CLUSTER", help="With clusters: one more; may be repeated.")
    ] = None,
    capacity: Annotated[
        list[str] | None,
        typer.Option("--capacity", metavar="MEMBER=N", help="A member has this capacity; may be repeated."),
    ] = None,
    policy: Annotated[str, typer.Option("--policy", metavar="POLICY", help="Placed by load or count.")] = "",
    above: Annotated[float, typer.Option("--above", metavar="PART", help="With --policy load.")] = 0.0,
    below: Annotated[float, typer.Option("--below", metavar="PART", help="With --policy load.")] = 0.0,
    output: DocumentOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    kind = parse_kind(type_, "preview", (GROUP, CLUSTER))
    format = parse_format(output, (Format.TABLE, Format.JSON, Format.YAML))
    if kind is CLUSTER:
        given = {"NAME": name, "--without-cluster": without_cluster, "--capacity": capacity, "--policy": policy}
        _preview_clusters(given, without, new, format, endpoint, context)
        return
    if not name or new:
        remedy = "write braid preview group NAME, without --new"
        raise Invalid("a preview of leases is of a group", field="NAME", remedy=remedy)
    capacities = dict(_parse_capacity(each) for each in capacity or ())
    members, clusters = tuple(without or ()), tuple(without_cluster or ())
    placed = parse_policy(policy, above, below) if policy else None
    execute(endpoint, context, lambda session: _show(session, name, members, clusters, capacities, placed, format))


def _preview_clusters(
    given: "Mapping[str, object]",
    without: list[str] | None,
    new: list[str] | None,
    format: Format,
    endpoint: str,
    context: str,
) -> None:
    from braid.cli.resources.clusters.balance_preview import preview_clusters

    for field, value in given.items():
        if value:
            remedy = "braid preview clusters takes --without CLUSTER and --new CLUSTER"
            raise Invalid("a preview of clusters is of all of them", field=field, remedy=remedy)
    left, more = tuple(without or ()), tuple(new or ())
    execute(endpoint, context, lambda session: preview_clusters(session, left, more, format))


def _parse_capacity(text: str) -> tuple[str, float]:
    member, _, number = text.rpartition("=")
    try:
        return member, float(number)
    except ValueError:
        remedy = "write MEMBER=NUMBER, for example web-2=4.0"
        raise Invalid(f"{text!r} is no member's capacity", field="--capacity", remedy=remedy) from None


async def _show(
    session: "Session",
    group: str,
    members: tuple[str, ...],
    clusters: tuple[str, ...],
    capacities: dict[str, float],
    policy: "PlacementPolicy | None",
    format: Format,
) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import PreviewPlacementRequest, PreviewPlacementResponse
    from braid.cli.core.documents import to_document

    request = PreviewPlacementRequest(
        group=group, leaving_members=members, lost_clusters=clusters, capacities=capacities, policy=policy
    )
    found = await session.read("assigner", "PreviewPlacement", request, PreviewPlacementResponse)
    if format is Format.TABLE:
        session.terminal.print(told(group, found, session.now_ms))
    else:
        session.terminal.print(render_document(format, to_document(found)))
    return 0


def told(group: str, found: "PreviewPlacementResponse", now_ms: int) -> str:
    """The lines of a preview, for people."""
    names = {each.member: each.client_id or each.member for each in found.members}
    count = len(found.moves)
    lines = [f"group {group}: {count or 'no'} lease{'' if count == 1 else 's'} would move"]
    if not found.measured:
        lines.append("The leader has not measured for long enough: leases are only counted.")
    if found.HasField("shadow"):
        lines += ["", *_shadow_lines(found.shadow, now_ms)]
    lines += ["", *_table(names, found.members)] if found.members else ["", "Nobody would be left."]
    shown = found.moves[:CLI_MOVES_SHOWN]
    lines += [""] if shown else []
    for move in shown:
        source = names.get(move.from_member, move.from_member) or "nobody"
        taker = names.get(move.to_member, move.to_member) or "nobody"
        lines.append(f"{move.lease}  {source} → {taker}")
    if count > len(shown):
        lines.append(f"… and {count - len(shown)} more: -o json shows them all")
    return "\n".join(lines)


def _shadow_lines(shadow: "ShadowComparison", now_ms: int) -> list[str]:
    """The simulated effect of its shadow policy, beside the present placement."""
    from braid.cli.core.documents import to_document

    now, then = f"{shadow.max_over_mean_now:.2f} now", f"{shadow.max_over_mean_then:.2f} then"
    average = f"{shadow.average_now:.2f} now, {shadow.average_then:.2f} then"
    return [
        f"Shadow {policy_text(to_document(shadow.policy))}, tried for {age_text(shadow.since_ms, now_ms)}:",
        f"  {shadow.moves} leases would lie elsewhere",
        f"  most loaded over the mean: {now}, {then}",
        f"  on average of {shadow.looks} looks: {average}",
    ]


def _table(names: dict[str, str], members: "Iterable[MemberLoad]") -> list[str]:
    """Leases, and load relative to the mean, before and after."""
    width = max(len("MEMBER"), *(len(name) for name in names.values()))
    lines = [f"{'MEMBER':{width}}  {'LEASES':>13}  {'LOAD':>13}"]
    for each in members:
        leases = f"{each.leases_now} → {each.leases_then}"
        load = f"{each.relative_load_now:.2f} → {each.relative_load_then:.2f}"
        lines.append(f"{names[each.member]:{width}}  {leases:>13}  {load:>13}")
    return lines
