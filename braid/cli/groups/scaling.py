"""`set scaling`: how the number of members that a group should have follows its lag and load."""

from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.cli.core.times import parse_duration
from braid.cli.resources.group_scaling import scaling_text
from braid.kernel.errors import Invalid

if TYPE_CHECKING:
    from braid.api.assigner.v1.scaling_pb2 import ScalingMode, ScalingPolicy
    from braid.cli.core.session import Session

_SCALING: Final = """Say how many members a group should have: computed from lag targets and load, within bounds.

\b
  braid set scaling indexer propose --max 12             show and record the number; nothing acts on it
  braid set scaling indexer automatic --min 2 --max 12   tell it to KEDA, too
  braid set scaling indexer automatic --max 12 --window 30m --factor 1.5
  braid set scaling indexer off
"""
_MODES: Final = ("off", "propose", "automatic")

_Group = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
_Mode = Annotated[str, typer.Argument(metavar="MODE", show_default=False)]
_Min = Annotated[int, typer.Option("--min", metavar="MEMBERS", help="No fewer members.")]
_Max = Annotated[int, typer.Option("--max", metavar="MEMBERS", help="No more members; needed unless the mode is off.")]
_Cooldown = Annotated[str, typer.Option("--cooldown", metavar="TIME", help="Time between two changes; 60s by default.")]
_Window = Annotated[
    str, typer.Option("--window", metavar="TIME", help="Ask for fewer after this time of calm; 1h by default.")
]
_Factor = Annotated[float, typer.Option("--factor", help="Change the number by at most this factor; 2 by default.")]


def register(settings: typer.Typer) -> None:
    """Adds the setting to the application."""
    settings.command("scaling", help=_SCALING)(_set_scaling)


def parse_scaling(mode: str, least: int, most: int, cooldown: str, window: str, factor: float) -> "ScalingPolicy":
    """Parses a scaling policy. Raises `Invalid`."""
    from braid.api.assigner.v1.scaling_pb2 import ScalingPolicy

    if mode not in _MODES:
        raise Invalid(f"{mode!r} is no mode", field="MODE", remedy=f"use {', '.join(_MODES)}")
    policy = ScalingPolicy(mode=cast("ScalingMode.ValueType", _MODES.index(mode) + 1))
    if mode == "off":
        return policy
    policy.min_members, policy.max_members, policy.factor = least, most, factor
    if cooldown:
        policy.cooldown_seconds = parse_duration(cooldown, "--cooldown") / 1000
    if window:
        policy.window_seconds = parse_duration(window, "--window") / 1000
    return policy


def _set_scaling(
    group: _Group,
    mode: _Mode,
    least: _Min = 1,
    most: _Max = 0,
    cooldown: _Cooldown = "",
    window: _Window = "",
    factor: _Factor = 0.0,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    policy = parse_scaling(mode, least, most, cooldown, window, factor)
    execute(endpoint, context, lambda session: _change_scaling(session, group, policy))


async def _change_scaling(session: "Session", group: str, policy: "ScalingPolicy") -> int:
    from braid.api.assigner.v1.assigner_service_pb2 import SetScalingRequest
    from braid.cli.core.documents import to_document
    from braid.cli.groups.changes import change, say

    told = await change(session, "SetScaling", SetScalingRequest(group=group, policy=policy), f"changing {group}", "")
    return say(session, told, f"group/{group} scaling: {scaling_text(to_document(told.scaling))}")
