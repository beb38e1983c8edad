"""Settings of a registry process, beside those of every service."""

from pydantic import Field

from braid.kernel.limits.health import PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS
from braid.kernel.limits.leases import PRODUCER_SESSION_SECONDS
from braid.runtime.settings import Settings


class RegistrySettings(Settings):
    """Settings of a registry, from `BRAID_…` variables and the file named by `BRAID_CONFIG`.

    Attributes:
        producer_session_seconds: A producer that acknowledges no route for this long no longer counts as live.
        probe_interval_seconds: Time between two probes of a cluster.
        probe_timeout_seconds: A probe that takes longer counts as failed.
    """

    producer_session_seconds: float = Field(default=PRODUCER_SESSION_SECONDS, gt=0)
    probe_interval_seconds: float = Field(default=PROBE_INTERVAL_SECONDS, gt=0)
    probe_timeout_seconds: float = Field(default=PROBE_TIMEOUT_SECONDS, gt=0)
