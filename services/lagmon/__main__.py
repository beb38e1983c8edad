"""`python -m services.lagmon`: one lag monitor's process."""

import sys

from braid.kafka.cluster import AioKafka
from braid.runtime.http_posts import HttpPosts
from braid.runtime.process import serve
from braid.runtime.settings import settings_or_exit
from services.lagmon.alerts.outlets.decisions.model import OutletKind, OutletTarget
from services.lagmon.alerts.outlets.sending import Outgoing
from services.lagmon.config import LagmonSettings
from services.lagmon.kept.files import DirectoryFiles
from services.lagmon.servicer.exporter_metrics import Exporter
from services.lagmon.servicer.service import Lagmon


def main() -> int:
    """Runs one replica until it is told to stop; returns the exit code."""
    settings = settings_or_exit(LagmonSettings)
    directory = settings.kept_lag_directory
    files = DirectoryFiles(directory) if directory is not None else None
    exporters = tuple(map(Exporter, settings.lag_exporters))
    targets = [OutletTarget(**{**each.model_dump(), "kind": OutletKind(each.kind)}) for each in settings.alert_outlets]
    kafka, outgoing = AioKafka(settings.instance), Outgoing(targets, settings.alert_runbooks, HttpPosts)
    return serve(Lagmon(kafka, files, settings.kept_lag_bytes, exporters, outgoing), settings)


if __name__ == "__main__":
    sys.exit(main())
