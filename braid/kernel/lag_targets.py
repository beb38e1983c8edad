"""Lag targets as streams declare them: durations by lane or by lane and group, and how often they hold. Pure."""

import re
from collections.abc import Collection, Mapping
from typing import Final

from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.lagmon.alerts import (
    AVAILABILITY_PERCENT_MAX,
    AVAILABILITY_PERCENT_MIN,
    LAG_TARGET_SECONDS_MAX,
    LAG_TARGET_SECONDS_MIN,
    LAG_TARGETS_MAX,
)

_DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
_UNIT_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def target_seconds(text: str, field: str) -> float:
    """Converts a target's text, such as `5s` or `1h`, to seconds.

    Raises:
        Invalid: it is no duration, or out of bounds.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise Invalid(
            f"{text!r} is not a duration", field=field, remedy="write a number and a unit: 500ms, 5s, 10m, 1h"
        )
    seconds = int(found[1]) * _UNIT_SECONDS[found[2]]
    if not LAG_TARGET_SECONDS_MIN <= seconds <= LAG_TARGET_SECONDS_MAX:
        remedy = f"use {LAG_TARGET_SECONDS_MIN * 1000:g}ms to {LAG_TARGET_SECONDS_MAX / 86_400:g}d"
        raise Invalid(f"a lag target of {text} is out of bounds", field=field, remedy=remedy)
    return seconds


def check_lag_targets(targets: Mapping[str, str], lanes: Collection[str], field: str) -> None:
    """Checks a stream's targets against its lanes.

    Raises:
        Invalid: a lane does not exist, a group's name or a duration is malformed, or there are too many.
    """
    if len(targets) > LAG_TARGETS_MAX:
        message = f"{len(targets)} lag targets are more than {LAG_TARGETS_MAX}"
        raise Invalid(message, field=field, remedy="declare a lane's target once, and name only groups that differ")
    for name, text in sorted(targets.items()):
        lane, slash, group = name.partition("/")
        if lane not in lanes:
            remedy = f"use one of {', '.join(sorted(lanes))}"
            raise Invalid(f"the stream has no lane {lane!r}", field=f"{field}.{name}", remedy=remedy)
        if slash:
            check_name(group, f"{field}.{name}")
        target_seconds(text, f"{field}.{name}")


def check_availability(percent: float | None, field: str) -> None:
    """Checks how often targets hold. Raises `Invalid` for 0, for 100, and for budgets that are not measurable."""
    if percent is None or AVAILABILITY_PERCENT_MIN <= percent <= AVAILABILITY_PERCENT_MAX:
        return
    remedy = f"use {AVAILABILITY_PERCENT_MIN:g} to {AVAILABILITY_PERCENT_MAX:g} percent, or leave it out for 99.9"
    raise Invalid(f"an availability of {percent:g} percent is out of bounds", field=field, remedy=remedy)


def target_of(targets: Mapping[str, float], lane: str, group: str) -> float | None:
    """Returns a group's target in a lane: its own, else the lane's; None when neither is declared."""
    own = targets.get(f"{lane}/{group}")
    return targets.get(lane) if own is None else own
