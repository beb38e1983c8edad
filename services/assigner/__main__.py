"""`python -m services.assigner`: one assigner process."""

import sys

from braid.kafka.cluster import AioKafka
from braid.runtime.process import serve
from braid.runtime.settings import settings_or_exit
from services.assigner.config import AssignerSettings
from services.assigner.servicer.service import Assigner


def main() -> int:
    """Runs one replica until it is told to stop; returns the exit code."""
    settings = settings_or_exit(AssignerSettings)
    kafka = AioKafka(settings.instance)
    return serve(Assigner(kafka, group_idle_expiry_seconds=settings.group_idle_expiry_seconds), settings)


if __name__ == "__main__":
    sys.exit(main())
