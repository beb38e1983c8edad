"""`set policy` and `set shadow`: a group's placement policy, and a second one that is only simulated beside it."""

from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.cli.resources.group_rules import policy_text
from braid.kernel.errors import Invalid

if TYPE_CHECKING:
    from braid.api.assigner.v1.rules_pb2 import PlacementBasis, PlacementPolicy
    from braid.cli.core.session import Session

_POLICY: Final = """Say what a group's placement evens out: load as measured, or numbers of leases.

\b
  braid set policy indexer load                         the default: moves what is 15 % above the mean
  braid set policy indexer load --above 0.3 --below 0.5
  braid set policy indexer count
"""
_SHADOW: Final = """Try another policy beside a group's own: it is computed and compared, and nothing moves by it.

\b
  braid set shadow indexer count
  braid set shadow indexer load --above 0.05
  braid set shadow indexer off
"""
_BASES: Final = ("load", "count")
_OFF: Final = "off"

_Group = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
_Basis = Annotated[str, typer.Argument(metavar="POLICY", show_default=False)]
_Above = Annotated[
    float, typer.Option("--above", metavar="PART", help="Move leases of members this far above the mean load.")
]
_Below = Annotated[float, typer.Option("--below", metavar="PART", help="Or this far below it.")]


def register(settings: typer.Typer) -> None:
    """Adds the settings to the application."""
    settings.command("policy", help=_POLICY)(_set_policy)
    settings.command("shadow", help=_SHADOW)(_set_shadow)


def parse_policy(basis: str, above: float, below: float) -> "PlacementPolicy":
    """Parses a placement policy. Raises `Invalid`."""
    from braid.api.assigner.v1.rules_pb2 import PlacementPolicy

    if basis not in _BASES:
        raise Invalid(f"{basis!r} is no policy", field="POLICY", remedy=f"use {' or '.join(_BASES)}")
    number = cast("PlacementBasis.ValueType", _BASES.index(basis) + 1)
    return PlacementPolicy(basis=number, band_high=above, band_low=below)


def _set_policy(
    group: _Group,
    basis: _Basis,
    above: _Above = 0.0,
    below: _Below = 0.0,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    policy = parse_policy(basis, above, below)
    execute(endpoint, context, lambda session: _change_policy(session, group, policy))


def _set_shadow(
    group: _Group,
    basis: _Basis,
    above: _Above = 0.0,
    below: _Below = 0.0,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    policy = None if basis == _OFF else parse_policy(basis, above, below)
    execute(endpoint, context, lambda session: _change_shadow(session, group, policy))


async def _change_policy(session: "Session", group: str, policy: "PlacementPolicy") -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import SetPolicyRequest
    from braid.cli.core.documents import to_document
    from braid.cli.groups.changes import change, say

    told = await change(session, "SetPolicy", SetPolicyRequest(group=group, policy=policy), f"changing {group}", "")
    return say(session, told, f"group/{group} is placed by {policy_text(to_document(told.rules.policy))}")


async def _change_shadow(session: "Session", group: str, policy: "PlacementPolicy | None") -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import SetShadowRequest
    from braid.cli.core.documents import to_document
    from braid.cli.groups.changes import change, say

    told = await change(session, "SetShadow", SetShadowRequest(group=group, policy=policy), f"changing {group}", "")
    if policy is None:
        return say(session, told, f"group/{group} tries no other policy")
    tried = policy_text(to_document(told.rules.shadow.policy))
    return say(session, told, f"group/{group} tries {tried}; see what it would do: braid preview group {group}")
