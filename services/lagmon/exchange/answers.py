"""The messages of one answer of a peer, put together to views; a part of an answer changes none."""

from collections.abc import Mapping

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.limits.lagmon.sampling import LAG_PROGRESS_MAX
from services.lagmon.division.exported import SharedPairs, SharedRows
from services.lagmon.division.packing import DamagedColumns
from services.lagmon.division.views import ClusterView, renewed
from services.lagmon.exchange.messages import read_reading, read_rows_message


class Answer:
    """One answer, of which at most as many rows are kept as its readings say."""

    def __init__(self, first: api.ReadLagColumnsResponse) -> None:
        """Begins with the message that has the readings."""
        self._now_ms = first.now_ms
        self._readings = {message.cluster: read_reading(message) for message in first.readings}
        self._parts: dict[str, list[SharedPairs | SharedRows]] = {name: [] for name in self._readings}
        self._pairs = dict.fromkeys(self._readings, 0)
        self._rows = dict.fromkeys(self._readings, 0)

    def add(self, message: api.ReadLagColumnsResponse) -> None:
        """Adds a further message.

        Raises:
            DamagedColumns: it is about a cluster without a reading, has too much, or does not fit together.
        """
        cluster = message.rows.cluster
        reading = self._readings.get(cluster)
        if reading is None:
            raise DamagedColumns(f"rows of cluster {cluster!r}, of which there is no reading")
        self._rows[cluster] += message.rows.count
        self._pairs[cluster] += len(message.rows.pairs)
        if self._rows[cluster] > reading.size or self._pairs[cluster] > LAG_PROGRESS_MAX:
            raise DamagedColumns(f"more rows of cluster {cluster!r} than its reading says")
        self._parts[cluster] += read_rows_message(message.rows)

    def views(self, known: Mapping[str, ClusterView], asked_at: float) -> Mapping[str, ClusterView]:
        """Returns the views of all clusters that the peer reads.

        Args:
            known: Views of the peer's same life before.
            asked_at: When the answer was asked for, on this replica's clock: it may have come late.

        Raises:
            DamagedColumns: rows do not fit what is known.
        """
        behind = asked_at - self._now_ms / 1_000
        return {
            name: renewed(known.get(name), reading, behind, self._parts[name])
            for name, reading in self._readings.items()
        }
