"""A group's scaling as messages of the API and of events, and as JSON for snapshots."""

from collections.abc import Sequence
from typing import cast

from braid.api.assigner.v1 import scaling_pb2
from braid.kernel.limits.assigner.scaling import (
    SCALING_COOLDOWN_DEFAULT,
    SCALING_FACTOR_DEFAULT,
    SCALING_WINDOW_DEFAULT,
)
from services.assigner.model.lag.scaling import (
    NO_RATES,
    CapacityLimit,
    DesiredCapacity,
    Scaling,
    ScalingMode,
    ScalingPolicy,
    SeenRates,
)


def scaling_policy_message(policy: ScalingPolicy) -> scaling_pb2.ScalingPolicy:
    """Builds the message of a policy."""
    return scaling_pb2.ScalingPolicy(
        mode=cast("scaling_pb2.ScalingMode.ValueType", policy.mode.value),
        min_members=policy.min_members,
        max_members=policy.max_members,
        cooldown_seconds=policy.cooldown_seconds,
        window_seconds=policy.window_seconds,
        factor=policy.factor,
    )


def read_scaling_policy(message: scaling_pb2.ScalingPolicy) -> ScalingPolicy:
    """Reads a policy, with the defaults of what is left out. Raises `ValueError` for an unknown mode."""
    return ScalingPolicy(
        ScalingMode(message.mode),
        message.min_members if message.HasField("min_members") else 1,
        message.max_members,
        message.cooldown_seconds or SCALING_COOLDOWN_DEFAULT,
        message.window_seconds or SCALING_WINDOW_DEFAULT,
        message.factor or SCALING_FACTOR_DEFAULT,
    )


def rates_message(rates: SeenRates) -> scaling_pb2.SeenRates | None:
    """Builds the message of what was seen during a shortage; None where none was seen."""
    return None if rates == NO_RATES else scaling_pb2.SeenRates(**rates._asdict())


def read_rates(message: scaling_pb2.SeenRates) -> SeenRates:
    """Reads the message of `rates_message`."""
    return SeenRates(message.members, message.done_per_s, message.produced_per_s, message.busy_per_s, message.cpu_apart)


def scaling_message(scaling: Scaling) -> scaling_pb2.GroupScaling:
    """Builds the message of a group's policy and number."""
    desired = scaling.desired
    told = scaling_pb2.GroupScaling(policy=scaling_policy_message(scaling.policy))
    if desired is not None:
        told.desired.members, told.desired.since_ms, told.desired.reason = (
            desired.members,
            desired.since_ms,
            desired.reason,
        )
        told.desired.limit = cast("scaling_pb2.CapacityLimit.ValueType", desired.limit.value)
    return told


def scaling_json(scaling: Scaling) -> Sequence[object]:
    """Returns a scaling as lists for a snapshot."""
    policy, desired = scaling.policy, scaling.desired
    bounds = [policy.min_members, policy.max_members, policy.cooldown_seconds, policy.window_seconds, policy.factor]
    if desired is None:
        return [policy.mode.value, *bounds]
    told = [
        desired.members,
        desired.since_ms,
        desired.reason,
        desired.limit.value,
        list(desired.shortage[:4]),  # earlier releases read four
        desired.incarnation,
    ]
    return [policy.mode.value, *bounds, told]


def read_scaling_json(item: Sequence[object], *, cpu_apart: bool = False) -> Scaling:
    """Reads the lists of `scaling_json`, and beside them `SeenRates.cpu_apart`.

    Raises `TypeError`, `ValueError`, `IndexError` for anything else.
    """
    mode, *bounds = item[:6]
    policy = ScalingPolicy(ScalingMode(mode), *bounds)  # type: ignore[arg-type]  # JSON has no types
    if len(item) == 6:
        return Scaling(policy)
    members, since_ms, reason, limit, shortage, incarnation = cast("Sequence[object]", item[6])
    desired = DesiredCapacity(
        cast("int", members),
        cast("int", since_ms),
        cast("str", reason),
        CapacityLimit(limit),
        SeenRates(*cast("Sequence[float]", shortage))._replace(cpu_apart=cpu_apart),  # type: ignore[arg-type]  # as above
        cast("int", incarnation),
    )
    return Scaling(policy, desired)
