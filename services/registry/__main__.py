"""The entry point of one registry process: `python -m services.registry`."""

import sys

from braid.kafka.cluster import AioKafka
from braid.runtime.process import serve
from braid.runtime.settings import settings_or_exit
from services.registry.config import RegistrySettings
from services.registry.model.rebalances import BalanceMode, BalanceRules
from services.registry.service import RegistryService
from services.registry.term import Tuning


def main() -> int:
    """Runs one replica until a signal stops it; returns the exit code."""
    settings = settings_or_exit(RegistrySettings)
    rules = BalanceRules(
        BalanceMode(settings.balance),
        settings.balance_band,
        settings.balance_moves_at_once,
        settings.balance_bytes_per_day,
    )
    tuning = Tuning(
        settings.producer_session_seconds, settings.probe_interval_seconds, settings.probe_timeout_seconds, rules
    )
    return serve(RegistryService(AioKafka(settings.instance), tuning), settings)


if __name__ == "__main__":
    sys.exit(main())
