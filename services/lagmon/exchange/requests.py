"""The RPC handler with which a replica shares the lag of the clusters that it reads."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import NamedTuple

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.ports import Caller, Host
from services.lagmon.columns.lags import LagColumns
from services.lagmon.division.exported import ExportedCluster
from services.lagmon.division.standing import Standing
from services.lagmon.division.views import SharedReading
from services.lagmon.exchange.messages import reading_message, rows_message
from services.lagmon.model.mesh_view import ClusterPlace
from services.lagmon.policy import Now


class OwnReading(NamedTuple):
    """The lag of one cluster as this replica read it by itself, at an instant of the table."""

    place: ClusterPlace
    columns: LagColumns
    standing: Standing


class OwnReadings(NamedTuple):
    """All clusters that this replica reads, by name, at one instant."""

    now: Now
    clusters: Mapping[str, OwnReading]


class SharedLag:
    """Serves what this replica reads. It keeps one copy of the rows that others have, however many ask."""

    def __init__(
        self, host: Host, readings: Callable[[], Awaitable[OwnReadings]], asked: Callable[[str], None]
    ) -> None:
        """`readings` returns what is read now; `asked` hears the names of replicas that ask."""
        self._host = host
        self._readings = readings
        self._asked = asked
        self._life = host.ids.ulid()
        self._taken: Now | None = None
        self._version = 0  # the greatest that was given in this life
        self._clusters: dict[str, tuple[ClusterPlace, ExportedCluster]] = {}

    async def read(
        self, request: api.ReadLagColumnsRequest, caller: Caller
    ) -> AsyncIterator[api.ReadLagColumnsResponse]:
        """Yields readings of all clusters that this replica reads, then what the asker lacks of their rows."""
        self._asked(request.instance)
        known = request.versions if request.life == self._life else {}
        own = await self._readings()
        self._take(own)
        readings, parts = [], []
        for name, (place, exported) in self._clusters.items():
            version = known.get(name, 0)
            standing = own.clusters[name].standing
            reading = SharedReading(
                name, place, exported.version, exported.size, exported.needs_all(version),
                standing.caught_up, _ms(standing.read_at), exported.seen,
            )  # fmt: skip
            readings.append(reading_message(reading))
            parts.append((name, exported.since(version)))  # as of this version, however late it is sent
        now_ms = _ms(self._host.clock.elapsed())
        yield api.ReadLagColumnsResponse(life=self._life, now_ms=now_ms, readings=readings)
        for name, rows in parts:
            for part in rows:
                yield api.ReadLagColumnsResponse(rows=rows_message(name, part))

    def _take(self, own: OwnReadings) -> None:
        if own.now == self._taken:
            return
        self._taken = own.now
        for gone in self._clusters.keys() - own.clusters.keys():
            del self._clusters[gone]
        for name, reading in own.clusters.items():
            known = self._clusters.get(name)
            if known is None or known[0] != reading.place:
                known = self._clusters[name] = (reading.place, ExportedCluster(self._version))
            known[1].take(reading.columns, own.now)
            self._version = max(self._version, known[1].version)


def _ms(seconds: float) -> int:
    return round(max(seconds, -1e12) * 1_000)
