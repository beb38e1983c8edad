"""Settings of an assigner process."""

from pydantic import Field

from braid.kernel.limits.assigner.leases import GROUP_IDLE_EXPIRY_SECONDS
from braid.runtime.settings import Settings


class AssignerSettings(Settings):
    """Settings of an assigner beside those of every service.

    Attributes:
        group_idle_expiry_seconds: A group without members for so long holds no drain any more.
    """

    group_idle_expiry_seconds: float = Field(default=GROUP_IDLE_EXPIRY_SECONDS, gt=0)
