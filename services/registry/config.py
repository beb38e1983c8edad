"""Settings of a registry process: those every service has, and its own."""

from pydantic import Field

from braid.kernel.limits.health import PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS
from braid.kernel.limits.leases import PRODUCER_SESSION_SECONDS
from braid.runtime.settings import Settings


class RegistrySettings(Settings):
    """From `BRAID_…` variables and the file named by `BRAID_CONFIG`.

    Attributes:
        producer_session_seconds: A producer that acknowledges no route for so long stops counting.
        probe_interval_seconds: Between two looks at a cluster.
        probe_timeout_seconds: A cluster that takes longer to answer a look is unwell.
    """

    producer_session_seconds: float = Field(default=PRODUCER_SESSION_SECONDS, gt=0)
    probe_interval_seconds: float = Field(default=PROBE_INTERVAL_SECONDS, gt=0)
    probe_timeout_seconds: float = Field(default=PROBE_TIMEOUT_SECONDS, gt=0)
