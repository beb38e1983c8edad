"""Reports the pathways that a process measured to lagmon, every 10 seconds, and once more when its mesh is closed.

A report that fails is lost, and counted: nothing waits for it, and no memory grows while lagmon is away.
"""

import asyncio
import contextlib
from typing import Final

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.lagmon.v1 import pathway_pb2
from braid.client.telemetry.pathways.recorder import Counts, Measured, Place, Recorder
from braid.kernel.errors import BraidError
from braid.kernel.limits.lagmon.pathways import (
    PATHWAY_BUCKET_MS,
    PATHWAY_CLOSE_SECONDS,
    PATHWAY_REPORT_DELAY_SECONDS,
    PATHWAY_REPORT_SECONDS,
)
from braid.kernel.pathways.sketches import Sketch
from braid.kernel.ports import Host, Task
from braid.rpc.mesh_client import ServiceClient

_NOTHING: Final = Counts()


class Reporter:
    """Reports what one recorder measured."""

    def __init__(self, host: Host, lagmon: ServiceClient, recorder: Recorder) -> None:
        self._host = host
        self._lagmon = lagmon
        self._recorder = recorder
        self._id = host.ids.ulid()
        self._sequence = 0
        self._told = _NOTHING
        self._task: Task | None = None

    def start(self) -> None:
        """Begins to report."""
        self._task = self._host.tasks.spawn(self._run(), "pathways")

    async def close(self) -> None:
        """Reports what is left, if lagmon answers within a second, and ends."""
        if self._task is not None:
            self._task.cancel()
            await self._task.ended()
            self._task = None
            await self._report(PATHWAY_CLOSE_SECONDS)

    async def _run(self) -> None:
        clock = self._host.clock
        while True:
            left_ms = PATHWAY_BUCKET_MS - clock.now_ms() % PATHWAY_BUCKET_MS
            later = self._host.randomness.uniform(0.0, PATHWAY_REPORT_DELAY_SECONDS)
            await clock.sleep(left_ms / 1000 + later)
            await self._report(PATHWAY_REPORT_SECONDS)

    async def _report(self, seconds: float) -> None:
        """Sends what was measured since the last report. Nothing measured, no report: it would name no stream."""
        measured, counts = self._recorder.take(), self._recorder.counts
        if not measured:
            return
        self._sequence += 1
        request = report(self._recorder.service, measured, counts, self._told)
        request.reporter, request.sequence = self._id, self._sequence
        self._told = counts
        arrived = False
        try:
            with contextlib.suppress(BraidError, TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._lagmon.unary(
                        "ReportPathways", request, api.ReportPathwaysResponse, timeout_seconds=seconds
                    )
                    arrived = True
        finally:  # also when the process ends meanwhile
            if not arrived:
                self._recorder.count(lost=1)


def report(service: str, measured: dict[Place, Measured], counts: Counts, told: Counts) -> api.ReportPathwaysRequest:
    """Builds a report; `told` are the counts that the report before had."""
    request = api.ReportPathwaysRequest(
        service=service,
        left_out=pathway_pb2.PathwaysLeftOut(
            garbage_headers=counts.garbage - told.garbage,
            records=counts.left_out - told.left_out,
            lost_reports=counts.lost - told.lost,
        ),
    )
    sent, received, groups = _Names(), _Names(), _Names()
    for place, (full, edge) in measured.items():
        stream, group = place.edge
        sketches = {"full": _message(full), "edge": _message(edge)}
        if group:
            at, of = received.index(stream), groups.index(group)
            request.received.add(stream=at, group=of, parent_hash=place.parent, **sketches)
        else:
            request.sent.add(stream=sent.index(stream), parent_hash=place.parent, **sketches)
    request.sent_streams[:], request.received_streams[:], request.groups[:] = (
        sent.places,
        received.places,
        groups.places,
    )
    return request


class _Names:
    """Names with their places in a list, in the order in which they were asked for."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def index(self, name: str) -> int:
        """Returns a name's place."""
        return self.places.setdefault(name, len(self.places))


def _message(sketch: Sketch) -> pathway_pb2.LatencySketch:
    bins = sorted(sketch.bins)
    return pathway_pb2.LatencySketch(zeros=sketch.zeros, bins=bins, counts=[sketch.bins[at] for at in bins])
