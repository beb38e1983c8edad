"""Settings of a registry process, beside those of every service."""

from typing import Literal

from pydantic import Field

from braid.kernel.limits.assigner.leases import PRODUCER_SESSION_SECONDS
from braid.kernel.limits.registry.balancing import BALANCE_BAND, BALANCE_BYTES_PER_DAY, BALANCE_MOVES_AT_ONCE
from braid.kernel.limits.registry.health import PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS
from braid.kernel.limits.registry.traffic import MOVES_PER_ROUND_MAX
from braid.runtime.settings import Settings


class RegistrySettings(Settings):
    """Settings of a registry, from `BRAID_…` variables and the file named by `BRAID_CONFIG`.

    Attributes:
        producer_session_seconds: A producer that acknowledges no route for this long no longer counts as live.
        probe_interval_seconds: Time between two probes of a cluster.
        probe_timeout_seconds: A probe that takes longer counts as failed.
        balance: What is done when load is uneven or a disk fills up: `off`, `propose` or `automatic`. A stream's
            `failover` bounds it.
        balance_band: A cluster is overloaded where it exceeds the mean by this part of it.
        balance_moves_at_once: Streams that move to even out load at the same time; 0 for none.
        balance_bytes_per_day: Kept bytes of streams that may move within a day; 0 for none.
    """

    producer_session_seconds: float = Field(default=PRODUCER_SESSION_SECONDS, gt=0)
    probe_interval_seconds: float = Field(default=PROBE_INTERVAL_SECONDS, gt=0)
    probe_timeout_seconds: float = Field(default=PROBE_TIMEOUT_SECONDS, gt=0)
    balance: Literal["off", "propose", "automatic"] = "off"
    balance_band: float = Field(default=BALANCE_BAND, ge=0.01, le=10.0)
    balance_moves_at_once: int = Field(default=BALANCE_MOVES_AT_ONCE, ge=0, le=MOVES_PER_ROUND_MAX)
    balance_bytes_per_day: int = Field(default=BALANCE_BYTES_PER_DAY, ge=0, le=1 << 60)
