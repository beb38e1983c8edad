"""Measures pathways in Spark's Python workers, and reports them to lagmon. A task never waits for a report.

A worker is reused for the next task. So what measures belongs to the process, and reports every ten seconds between
tasks too.
"""

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Sequence

from braid.client.mesh import connect
from braid.client.telemetry.pathways.consuming import ReceivedPathways
from braid.client.telemetry.pathways.recorder import Recorder
from braid.client.telemetry.pathways.reporter import Reporter
from braid.host.system import system_host
from braid.kernel.errors import BraidError
from braid.kernel.pathways.edges import Edge
from braid.kernel.record_columns import RecordColumns
from braid.spark.limits import SPARK_PATHWAY_RETRY_SECONDS, SPARK_PATHWAYS_MAX
from braid.spark.options import MeshOptions, ReadOptions

_log = logging.getLogger("braid.spark")


class WorkerPathways:
    """The pathways that one worker process measures for one query. Its methods run on the process's loop."""

    def __init__(self, options: ReadOptions) -> None:
        """Begins to report, as soon as a mesh can be reached."""
        self._options = options
        self._host = system_host()
        self._recorder = Recorder(options.pathways)
        self._received = ReceivedPathways(self._recorder, self._host, options.group)
        self._edge = Edge(options.mesh.stream, options.group)
        self._reporting = asyncio.get_running_loop().create_task(self._report())

    def asked(self, names: Sequence[str]) -> Sequence[str]:
        """Returns the headers to fetch where a read needs these."""
        return self._received.asked(names)

    def handed_out(self, part: RecordColumns) -> None:
        """Measures the sampled records among those that Spark is handed now."""
        for _, waiting in self._received.found(part):
            self._received.handed_out(self._edge, waiting)

    async def close(self) -> None:
        """Reports what is left, if lagmon answers within a second."""
        self._reporting.cancel()
        await asyncio.wait([self._reporting])

    async def _report(self) -> None:
        mesh = self._options.mesh
        told = False
        while True:
            try:
                async with connect(
                    mesh.endpoint, client_id=mesh.client_id, zone=mesh.zone, tls=mesh.tls, token=mesh.token
                ) as found:
                    reporter = Reporter(self._host, found.service("lagmon"), self._recorder)
                    reporter.start()
                    try:
                        await asyncio.Event().wait()
                    finally:
                        await reporter.close()
            except BraidError as error:
                if not told:
                    _log.warning("pathways are not reported until the mesh answers: %s", error)
                told = True
            await asyncio.sleep(SPARK_PATHWAY_RETRY_SECONDS)


_Key = tuple[int, MeshOptions, str, str]
_current: "OrderedDict[_Key, WorkerPathways]" = OrderedDict()


async def worker_pathways(options: ReadOptions) -> WorkerPathways | None:
    """Returns what measures a query's pathways in this process; None where they are not followed."""
    if not options.pathways:
        return None
    key = (os.getpid(), options.mesh, options.group, options.pathways)  # a fork must not use its parent's
    if key not in _current:
        _current[key] = WorkerPathways(options)
    _current.move_to_end(key)
    while len(_current) > SPARK_PATHWAYS_MAX:
        (process, *_), oldest = _current.popitem(last=False)
        if process == os.getpid():
            await oldest.close()
    return _current[key]
