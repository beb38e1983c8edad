"""Thresholds that a cluster's health is judged by: Braid's own, or those declared for one cluster. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from braid.kernel.errors import Invalid
from braid.kernel.limits.registry.health import (
    CHANNEL_GONE_AFTER_SECONDS,
    CHANNEL_GONE_SHARE_MAX,
    CLEARED_AFTER_SECONDS,
    DOWN_AFTER_SECONDS,
    FLAP_FALLS,
    FLAP_FALLS_MAX,
    FLAP_HOLD_SECONDS,
    FLAP_HOLD_SECONDS_MAX,
    GONE_SHARE_MAX,
    HALF_DEAD_AFTER_SECONDS,
    HEALTHY_AFTER_SECONDS,
    NO_TOPICS_AFTER_SECONDS,
    PARTITION_GONE_AFTER_SECONDS,
    PROBE_TIMEOUT_SECONDS,
    RIDE_OUT_SECONDS,
    RIDE_OUT_SECONDS_MAX,
    SEND_REPORTERS_MIN,
    SEND_REPORTERS_SHARE,
    SLOW_AFTER_SECONDS,
    SLOW_FACTOR,
    SLOW_FLOOR_SECONDS,
    SOLE_WITNESS_SECONDS,
)
from braid.kernel.limits.registry.traffic import DISK_FREE_SHARE_MIN


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Numbers of `judge.py`; seconds unless named. Their reasons are in `limits/registry/health.py`.

    Attributes:
        look_timeout_seconds: A probe that takes longer has failed.
        down_after_seconds: Agreeing evidence for this long makes the cluster DOWN.
        healthy_after_seconds: Success for this long makes an unwell cluster healthy again.
        slow_floor_seconds: An append that takes less is never slow.
        slow_factor: An append that takes this many times the cluster's usual time is slow.
        slow_after_seconds: Slow probes for this long make the cluster SLOW.
        cleared_after_seconds: Success for this long ends a suspicion that was not confirmed.
        gone_share: With a larger share of its partitions unavailable, the cluster counts as down.
        half_dead_after_seconds: A partition counts as unavailable after this long without a leader, or hanging.
        channel_gone_share: With a larger share of a channel's partitions unavailable, its traffic leaves,
        channel_gone_after_seconds: after this long without leaders, or without its topic.
        partition_gone_after_seconds: A single partition without a leader for this long makes its channel's traffic
            leave.
        no_topics_after_seconds: After this long of refusals to create topics, no new traffic comes.
        flap_falls: With this many falls within five minutes, its return is delayed; 0 for never.
        flap_hold_seconds: The delay, doubled with each further fall.
        witness_hosts: Number of hosts that must fail to outweigh a registry that reaches it; if fewer use it,
        witness_share: the share of them that must fail.
        sole_witness_seconds: Complaints for this long by the only host that uses the cluster, while the registry
            reaches it,
            make it DOWN; never less than `down_after_seconds`.
        ride_out_seconds: Appends may hang this long because brokers died, before traffic leaves; never less than
            `down_after_seconds`. Kafka elects other leaders once it has noticed, after 9 s by default.
        disk_free_share: With a smaller share of its brokers' fullest disk free, it takes no new traffic.
    """

    look_timeout_seconds: float = PROBE_TIMEOUT_SECONDS
    down_after_seconds: float = DOWN_AFTER_SECONDS
    healthy_after_seconds: float = HEALTHY_AFTER_SECONDS
    slow_floor_seconds: float = SLOW_FLOOR_SECONDS
    slow_factor: float = SLOW_FACTOR
    slow_after_seconds: float = SLOW_AFTER_SECONDS
    cleared_after_seconds: float = CLEARED_AFTER_SECONDS
    gone_share: float = GONE_SHARE_MAX
    half_dead_after_seconds: float = HALF_DEAD_AFTER_SECONDS
    channel_gone_share: float = CHANNEL_GONE_SHARE_MAX
    channel_gone_after_seconds: float = CHANNEL_GONE_AFTER_SECONDS
    partition_gone_after_seconds: float = PARTITION_GONE_AFTER_SECONDS
    no_topics_after_seconds: float = NO_TOPICS_AFTER_SECONDS
    flap_falls: float = FLAP_FALLS
    flap_hold_seconds: float = FLAP_HOLD_SECONDS
    witness_hosts: float = SEND_REPORTERS_MIN
    witness_share: float = SEND_REPORTERS_SHARE
    sole_witness_seconds: float = SOLE_WITNESS_SECONDS
    disk_free_share: float = DISK_FREE_SHARE_MIN
    ride_out_seconds: float = RIDE_OUT_SECONDS

    def hanging_seconds(self, ride_out_seconds: float | None = None) -> float:
        """How long appends may hang on dead brokers before traffic leaves; a stream may declare its own time."""
        declared = self.ride_out_seconds if ride_out_seconds is None else ride_out_seconds
        return max(self.down_after_seconds, declared)


# The least and the most a person may declare.
BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    "look_timeout_seconds": (0.1, 10.0),
    "down_after_seconds": (0.5, 600.0),
    "healthy_after_seconds": (1.0, 3_600.0),
    "slow_floor_seconds": (0.01, 10.0),
    "slow_factor": (1.5, 1_000.0),
    "slow_after_seconds": (1.0, 3_600.0),
    "cleared_after_seconds": (0.5, 3_600.0),
    "gone_share": (0.0, 1.0),
    "half_dead_after_seconds": (0.5, 600.0),
    "channel_gone_share": (0.0, 1.0),
    "channel_gone_after_seconds": (1.0, 3_600.0),
    "partition_gone_after_seconds": (1.0, 86_400.0),
    "no_topics_after_seconds": (1.0, 3_600.0),
    "flap_falls": (0.0, float(FLAP_FALLS_MAX)),
    "flap_hold_seconds": (1.0, FLAP_HOLD_SECONDS_MAX),
    "witness_hosts": (1.0, 1_000.0),
    "witness_share": (0.0, 1.0),
    "sole_witness_seconds": (0.5, 3_600.0),
    "disk_free_share": (0.0, 0.9),
    "ride_out_seconds": (0.0, RIDE_OUT_SECONDS_MAX),
}
NAMES: Final = tuple(field.name for field in fields(Thresholds))


def check_overrides(declared: Mapping[str, float]) -> None:
    """Raises `Invalid` for a number out of bounds; `field` names it."""
    for name, value in declared.items():
        if name not in BOUNDS:
            remedy = f"use one of: {', '.join(NAMES)}"
            raise Invalid(f"{name} is no threshold", field=f"spec.health.{name}", remedy=remedy)
        least, most = BOUNDS[name]
        if not least <= value <= most:  # also what is no number
            message = f"{value:g} is out of bounds"
            remedy = f"use {least:g} to {most:g}, or leave it out for {getattr(Thresholds(), name):g}"
            raise Invalid(message, field=f"spec.health.{name}", remedy=remedy)


def thresholds_of(declared: Mapping[str, float], usual: Thresholds) -> Thresholds:
    """The thresholds of a cluster: its own where declared, else the default ones."""
    return replace(usual, **declared) if declared else usual
