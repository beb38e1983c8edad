"""The verbs `drain`, `pin`, `ban`, `freeze`, `set` and their opposites: operators' rules for a group."""

from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.cli.core.kinds import GROUP, LEASE, MEMBER, parse_kind
from braid.cli.groups import policies, responses, scaling
from braid.cli.groups.changes import change, say
from braid.cli.history.why import check_lease
from braid.cli.resources.clusters import health as cluster_health
from braid.kernel.errors import Invalid

if TYPE_CHECKING:
    from braid.cli.core.session import Session

_DRAIN: Final = """Empty a member: it gets no more leases, and gives back what it holds, some each minute.

\b
  braid drain member web-1 --reason "host update"
  braid get members -w                     watch it become DRAINED
  braid undrain member web-1               let it have leases again
"""
_UNDRAIN: Final = """Let a drained member have leases again.

\b
  braid undrain member web-1
"""
_PIN: Final = """Give a lease to a member for good. While that member is away it goes elsewhere, unless --strict.

\b
  braid pin lease logs/live/1/3 --to web-1
  braid pin lease logs/live/1/3 --to web-1 --strict
  braid unpin lease logs/live/1/3
"""
_UNPIN: Final = """Let the assigner place a pinned lease again, by load.

\b
  braid unpin lease logs/live/1/3
"""
_BAN: Final = """Keep a stream, a lane, a channel, a lease or a cluster from a member, whatever happens.

\b
  braid ban member web-1 --from logs/bulk
  braid ban member web-1 --from logs/live/1/3
  braid ban member web-1 --from-cluster east
  braid unban member web-1 --from logs/bulk
"""
_UNBAN: Final = """Lift a ban.

\b
  braid unban member web-1 --from logs/bulk
  braid unban member web-1 --from-cluster east
"""
_FREEZE: Final = """Stop all moves of a group. Leases of a lost member still go to the others at once.

\b
  braid freeze group indexer --reason release
  braid unfreeze group indexer
"""
_UNFREEZE: Final = """Let a group move leases again.

\b
  braid unfreeze group indexer
"""
_SET: Final = """Set a member's capacity, or how a group is placed, uses zones and hosts, or is fenced.

\b
  braid set capacity web-1 4.0
  braid set zones indexer prefer
  braid set hosts indexer apart
  braid set fencing indexer none
  braid set shadow indexer count
  braid set policy indexer load --above 0.3
"""
_SET_CAPACITY: Final = """Set a member's capacity, in busy seconds a second, instead of the one that it declares.

\b
  braid set capacity web-1 4.0
  braid set capacity web-1 --unset
"""
_SET_ZONES: Final = """Set whether members consume from clusters in their own zone: any, prefer or strict.

\b
  braid set zones indexer prefer           as far as loads stay even
  braid set zones indexer strict           only members of the zone
  braid set zones indexer any
"""
_SET_HOSTS: Final = """Set whether the partitions of a lane are spread over as many hosts as there are.

\b
  braid set hosts indexer apart
  braid set hosts indexer any
"""
_SET_FENCING: Final = """Set whether clusters refuse commits of a frozen former holder: generation, or none.

The group must have no members; its progress is kept.

\b
  braid set fencing indexer none           tools may set its offsets
  braid set fencing indexer generation
"""
_ZONES: Final = ("any", "prefer", "strict")
_HOSTS: Final = ("any", "apart")

_Type = Annotated[str, typer.Argument(metavar="TYPE", show_default=False)]
_Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]
_Member = Annotated[str, typer.Argument(metavar="MEMBER", show_default=False)]
_Group = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
_InGroup = Annotated[str, typer.Option("--group", metavar="NAME", help="The group, if several have this lease.")]
_Reason = Annotated[str, typer.Option(metavar="TEXT", help="Kept in the group's history.")]
_Absent = Annotated[bool, typer.Option("--absent", help="Accept a member that has not joined yet.")]
_From = Annotated[str, typer.Option("--from", metavar="PATH", help="STREAM[/LANE[/GENERATION[/PARTITION]]].")]
_FromCluster = Annotated[str, typer.Option("--from-cluster", metavar="NAME", help="Everything on a cluster.")]


def register(app: typer.Typer) -> None:
    """Adds the verbs to the application."""
    app.command("drain", help=_DRAIN)(_drain)
    app.command("undrain", help=_UNDRAIN)(_undrain)
    app.command("pin", help=_PIN)(_pin)
    app.command("unpin", help=_UNPIN)(_unpin)
    app.command("ban", help=_BAN)(_ban)
    app.command("unban", help=_UNBAN)(_unban)
    app.command("freeze", help=_FREEZE)(_freeze)
    app.command("unfreeze", help=_UNFREEZE)(_unfreeze)
    settings = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
    settings.callback(help=_SET)(_set)
    settings.command("capacity", help=_SET_CAPACITY)(_set_capacity)
    settings.command("zones", help=_SET_ZONES)(_set_zones)
    settings.command("hosts", help=_SET_HOSTS)(_set_hosts)
    settings.command("fencing", help=_SET_FENCING)(_set_fencing)
    policies.register(settings)
    scaling.register(settings)
    responses.register(settings)
    cluster_health.register(settings)
    app.add_typer(settings, name="set")


def _set() -> None:
    """Set a member's capacity, how a group uses zones and hosts or is fenced, or how a cluster is judged."""


def _drain(
    type_: _Type,
    name: _Name,
    group: _InGroup = "",
    reason: _Reason = "",
    absent: _Absent = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "drain", (MEMBER,))
    execute(endpoint, context, lambda session: _set_drain(session, name, group, True, reason, absent))


def _undrain(
    type_: _Type, name: _Name, group: _InGroup = "", endpoint: EndpointOption = "", context: ContextOption = ""
) -> None:
    parse_kind(type_, "undrain", (MEMBER,))
    execute(endpoint, context, lambda session: _set_drain(session, name, group, False, "", False))


def _pin(
    type_: _Type,
    name: _Name,
    to: Annotated[str, typer.Option(metavar="MEMBER", help="The member's client id, or its id.", show_default=False)],
    strict: Annotated[
        bool, typer.Option("--strict", help="Let no other member hold the lease, even while this one is away.")
    ] = False,
    group: _InGroup = "",
    absent: _Absent = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "pin", (LEASE,))
    check_lease(name)
    execute(endpoint, context, lambda session: _set_pin(session, name, group, to, strict, absent))


def _unpin(
    type_: _Type, name: _Name, group: _InGroup = "", endpoint: EndpointOption = "", context: ContextOption = ""
) -> None:
    parse_kind(type_, "unpin", (LEASE,))
    check_lease(name)
    execute(endpoint, context, lambda session: _set_pin(session, name, group, "", False, False))


def _ban(
    type_: _Type,
    name: _Name,
    path: _From = "",
    cluster: _FromCluster = "",
    group: _InGroup = "",
    absent: _Absent = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "ban", (MEMBER,))
    _check_part(path, cluster)
    execute(endpoint, context, lambda session: _set_ban(session, name, group, path, cluster, False, absent))


def _unban(
    type_: _Type,
    name: _Name,
    path: _From = "",
    cluster: _FromCluster = "",
    group: _InGroup = "",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    parse_kind(type_, "unban", (MEMBER,))
    _check_part(path, cluster)
    execute(endpoint, context, lambda session: _set_ban(session, name, group, path, cluster, True, False))


def _freeze(
    type_: _Type, name: _Name, reason: _Reason = "", endpoint: EndpointOption = "", context: ContextOption = ""
) -> None:
    parse_kind(type_, "freeze", (GROUP,))
    execute(endpoint, context, lambda session: _set_freeze(session, name, True, reason))


def _unfreeze(type_: _Type, name: _Name, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    parse_kind(type_, "unfreeze", (GROUP,))
    execute(endpoint, context, lambda session: _set_freeze(session, name, False, ""))


def _set_capacity(
    member: _Member,
    capacity: Annotated[float | None, typer.Argument(metavar="NUMBER", show_default=False)] = None,
    unset: Annotated[bool, typer.Option("--unset", help="Use the capacity that the member declares.")] = False,
    group: _InGroup = "",
    absent: _Absent = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    if (capacity is None) != unset:
        raise Invalid("either a number or --unset is needed", field="NUMBER", remedy=f"braid set capacity {member} 4.0")
    execute(endpoint, context, lambda session: _change_capacity(session, member, group, capacity, absent))


def _set_zones(group: _Group, rule: str, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    _check_choice(rule, _ZONES)
    execute(endpoint, context, lambda session: _change_spreading(session, group, _ZONES.index(rule) + 1, None))


def _set_hosts(group: _Group, rule: str, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    _check_choice(rule, _HOSTS)
    execute(endpoint, context, lambda session: _change_spreading(session, group, 0, rule == "apart"))


def _set_fencing(group: _Group, fencing: str, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    from braid.cli.groups.fencing import set_fencing

    execute(endpoint, context, lambda session: set_fencing(session, group, fencing))


def _check_part(path: str, cluster: str) -> None:
    if bool(path) == bool(cluster):
        remedy = "for example --from logs/bulk, or --from-cluster east"
        raise Invalid("either --from or --from-cluster is needed", field="--from", remedy=remedy)


def _check_choice(rule: str, choices: tuple[str, ...]) -> None:
    if rule not in choices:
        raise Invalid(f"{rule!r} is not one of the choices", field="RULE", remedy=f"use {' or '.join(choices)}")


async def _set_drain(session: "Session", member: str, group: str, drained: bool, reason: str, absent: bool) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import DrainMemberRequest

    request = DrainMemberRequest(group=group, member=member, drained=drained, reason=reason, absent=absent)
    told = await change(session, "DrainMember", request, f"draining {member}", member)
    left = sum(each.leases for each in told.rules.drains if each.member == member)
    watch = f"; watch it: braid get members --group {told.name} -w"
    done = f"draining, {left} leases to go{watch}" if left else "drained: it holds nothing, and gets nothing"
    return say(session, told, f"member/{member} {done if drained else 'may hold leases again'}")


async def _set_pin(session: "Session", lease: str, group: str, member: str, strict: bool, absent: bool) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import PinLeaseRequest

    request = PinLeaseRequest(group=group, lease=lease, member=member, strict=strict, absent=absent)
    told = await change(session, "PinLease", request, f"pinning {lease}", member)
    only = ", and to nobody else" if strict else ""
    return say(session, told, f"lease/{lease} pinned to {member}{only}" if member else f"lease/{lease} unpinned")


async def _set_ban(
    session: "Session", member: str, group: str, path: str, cluster: str, lifted: bool, absent: bool
) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import BanMemberRequest

    request = BanMemberRequest(group=group, member=member, path=path, cluster=cluster, lifted=lifted, absent=absent)
    told = await change(session, "BanMember", request, f"banning {member}", member)
    what = path or f"cluster {cluster}"
    return say(session, told, f"member/{member} {'may hold' if lifted else 'banned from'} {what}")


async def _set_freeze(session: "Session", group: str, frozen: bool, reason: str) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import FreezeGroupRequest

    request = FreezeGroupRequest(group=group, frozen=frozen, reason=reason)
    told = await change(session, "FreezeGroup", request, f"freezing {group}", "")
    return say(session, told, f"group/{group} {'frozen: no held lease moves' if frozen else 'moves again'}")


async def _change_capacity(session: "Session", member: str, group: str, capacity: float | None, absent: bool) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import SetCapacityRequest

    request = SetCapacityRequest(group=group, member=member, absent=absent)
    if capacity is not None:
        request.capacity = capacity
    told = await change(session, "SetCapacity", request, f"setting the capacity of {member}", member)
    said = "that it declares" if capacity is None else f"of {capacity:g} busy seconds a second"
    return say(session, told, f"member/{member} has the capacity {said}")


async def _change_spreading(session: "Session", group: str, zones: int, hosts: bool | None) -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import SetSpreadingRequest
    from braid.api.assigner.v1.rules_pb2 import ZoneRule
    from braid.cli.core.documents import enum_text

    request = SetSpreadingRequest(group=group, zones=cast("ZoneRule.ValueType", zones))
    if hosts is not None:
        request.hosts = hosts
    told = await change(session, "SetSpreading", request, f"changing {group}", "")
    zone_rule = enum_text(ZoneRule.DESCRIPTOR, told.rules.zones)
    return say(session, told, f"group/{group} zones: {zone_rule}, hosts: {_HOSTS[told.rules.spread_hosts]}")
