"""Settings of an assigner process."""

from pydantic import Field

from braid.kernel.limits.leases import GROUP_IDLE_EXPIRY_SECONDS
from braid.runtime.settings import Settings


class AssignerSettings(Settings):
    """What an assigner needs to know beside what every service does.

    Attributes:
        group_idle_expiry_seconds: A group without members for so long holds no drain any more.
    """

    group_idle_expiry_seconds: float = Field(default=GROUP_IDLE_EXPIRY_SECONDS, gt=0)
