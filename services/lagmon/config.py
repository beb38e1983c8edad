"""Settings of a lag monitor's process: those of every service."""

from braid.runtime.settings import Settings


class LagmonSettings(Settings):
    """Settings of a lag monitor; it learns clusters and groups from the registry and the assigner."""
