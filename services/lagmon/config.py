"""Settings of a lag monitor's process: those of every service."""

from braid.runtime.settings import Settings


class LagmonSettings(Settings):
    """What a lag monitor needs to know; clusters and groups it learns from the registry and the assigner."""
