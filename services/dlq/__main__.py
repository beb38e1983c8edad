"""The entry point of one dlq process: `python -m services.dlq`."""

import sys

from braid.kafka.cluster import AioKafka
from braid.kernel.ports import Host
from braid.runtime.process import serve
from braid.runtime.settings import settings_or_exit
from services.dlq.config import DlqSettings
from services.dlq.servicer.service import Dlq


def main() -> int:
    """Runs one replica until a signal stops it; returns the exit code."""
    settings = settings_or_exit(DlqSettings)

    def make(host: Host) -> Dlq:
        return Dlq(AioKafka(settings.instance), settings.index_file, settings.store)

    return serve(make, settings)


if __name__ == "__main__":
    sys.exit(main())
