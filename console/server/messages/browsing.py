"""One answer of the Messages page: records of a stream over all clusters that carry it, within bounds."""

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from braid.client.reading.channel_addresses import ChannelPlace
from braid.client.reading.record_filter import Candidate, matches
from braid.kernel.errors import BraidError, Exhausted, NotFound
from braid.kernel.filters.grammar import EVERYTHING
from braid.kernel.ports import Host, Kafka, KafkaRecord
from braid.rpc.documents import Document, Value
from console.server.limits import MESSAGES_DAMAGED_SHOWN, MESSAGES_LOGS_MAX
from console.server.messages.asked import Asked
from console.server.messages.budget import Budget, first_log
from console.server.messages.logs import Found, Log, merge
from console.server.messages.places import Places
from console.server.messages.reading import ClusterLogs, Damage
from console.server.messages.rows import row
from console.server.messages.values import Values, parsing_once

_NARROW: Final = "name a lane or a partition"


class Answer(NamedTuple):
    """An answer as JSON has it, and the time of the oldest record in it, 0 without one."""

    document: Document
    oldest_ms: int


class Browsing:
    """Goes over the logs of a stream once.

    Args:
        host: Clock of this process.
        kafka: The way to clusters, with the console's own profile.
        asked: What is sought.
        places: Where the stream's records lie.
        values: How values are read.
    """

    def __init__(self, host: Host, kafka: Kafka, asked: Asked, places: Places, values: Values) -> None:
        self._host = host
        self._kafka = kafka
        self._asked = asked
        self._places = places
        self._values = values
        self._budget = Budget(host.clock)
        self._logs = logs_of(places.channels, asked)
        self._clusters: dict[str, ClusterLogs] = {}
        self._errors: list[Document] = []

    async def answer(self) -> Answer:
        """Reads until there are enough rows, everything was read, or a bound is reached."""
        try:
            self._open_clusters()
            await asyncio.gather(*(each.open(self._asked) for each in self._clusters.values()))
            rows, ended_by = await self._rows()
        finally:
            await asyncio.gather(*(each.close() for each in self._clusters.values()))
        return Answer(self._document(rows, ended_by), min((each.time_ms for each in rows), default=0))

    def _open_clusters(self) -> None:
        for name in sorted({each.place.cluster for each in self._logs}):
            logs = [each for each in self._logs if each.place.cluster == name]
            place = logs[0].place
            try:
                cluster = self._kafka.cluster(place.bootstrap, place.security_profile)
            except BraidError as error:  # the console has no such profile
                for each in logs:
                    each.absent = error.message
                self._errors.append({"cluster": name, "reason": error.message, "remedy": error.remedy})
                continue
            self._clusters[name] = ClusterLogs(self._host, cluster, logs, self._budget, self._take)

    async def _rows(self) -> tuple[list[Found], str]:
        rows: list[Found] = []
        while True:
            rows += merge(self._logs, self._asked.limit - len(rows))
            if len(rows) >= self._asked.limit:
                return rows, "rows"
            if not any(each.waits for each in self._logs):
                return rows, "end"
            bound = self._budget.bound
            if bound:
                return await self._rest(rows, bound), bound
            room = self._asked.limit - len(rows) if self._asked.filter is EVERYTHING else 1 << 30
            await asyncio.gather(*(each.read(room) for each in self._clusters.values()))

    async def _rest(self, rows: list[Found], bound: str) -> list[Found]:
        """The rows, and what was read beside them; one record at least, so that asking on gets on."""
        rows = rows + merge(self._logs, self._asked.limit - len(rows), incomplete=True)
        log = first_log(self._logs)
        if not rows and log is not None and bound == "bytes" and not self._moved():
            await next(each for each in self._clusters.values() if each.has(log)).read_one(log)
            rows = merge(self._logs, 1, incomplete=True)
        return rows

    def _moved(self) -> bool:
        """Whether an answer that goes on from here begins elsewhere than this one did."""
        return any(each.position != each.began for each in self._logs)

    async def _take(self, log: Log, records: Sequence[KafkaRecord]) -> Sequence[Found]:
        await self._values.prepare(records)
        return [
            Found(each.timestamp, each.offset, row(log.place, log.partition, each, self._values.preview(each)))
            for each in records
            if self._matches(log, each)
        ]

    def _matches(self, log: Log, record: KafkaRecord) -> bool:
        if self._asked.filter is EVERYTHING:
            return True
        place = log.place
        parsed = parsing_once(self._values, record)
        return matches(self._asked.filter, Candidate(place.lane, place.cluster, log.partition, record, parsed))

    def _document(self, rows: Sequence[Found], ended_by: str) -> Document:
        more = ended_by != "end" or any(each.found for each in self._logs)
        positions: dict[str, Value] = {each.key: each.position for each in self._logs if not each.absent}
        kept = {each.key: self._asked.positions[each.key] for each in self._logs if each.key in self._asked.positions}
        return {
            "rows": [each.row for each in rows],
            "now_ms": self._host.clock.now_ms(),
            "lanes": list(self._places.lanes),
            "clusters": list[Value](sorted({each.cluster for each in self._places.channels})),
            "partitions": len(self._logs),
            "looked_at": {
                "records": self._budget.records,
                "bytes": self._budget.bytes,
                "ms": self._budget.spent_ms,
            },
            "ended_by": ended_by,
            "positions": {**kept, **positions},
            "more": more or not self._asked.backward,
            "absent": self._absent(),
            "damaged": [_damaged(each) for each in self._damage()[:MESSAGES_DAMAGED_SHOWN]],
        }

    def _absent(self) -> list[Value]:
        """Clusters and partitions that nothing came from, each with its reason."""
        whole = [*self._errors]
        for name, cluster in self._clusters.items():
            if cluster.error is not None:
                whole.append({"cluster": name, **cluster.error})
        lost = {each["cluster"] for each in whole}
        single: list[Document] = [
            {"cluster": each.place.cluster, "partition": each.key, "reason": each.absent, "remedy": ""}
            for each in self._logs
            if each.absent and each.place.cluster not in lost
        ]
        return [*whole, *single]

    def _damage(self) -> list[Damage]:
        return [each for cluster in self._clusters.values() for each in cluster.damaged]


def logs_of(channels: Sequence[ChannelPlace], asked: Asked) -> list[Log]:
    """The partitions that are read, a bounded number.

    Raises:
        NotFound: no channel has the partition.
        Exhausted: there are too many.
    """
    logs = [
        Log(place, partition, asked.backward)
        for place in channels
        for partition in (range(place.partitions) if asked.partition is None else (asked.partition,))
        if partition < place.partitions
    ]
    if channels and not logs:
        raise NotFound(f"no channel has a partition {asked.partition}", field="partition", remedy="leave it out")
    if len(logs) > MESSAGES_LOGS_MAX:
        message = f"the records lie in {len(logs)} partitions, more than {MESSAGES_LOGS_MAX}"
        raise Exhausted(message, field="lane", remedy=_NARROW)
    return logs


def _damaged(damage: Damage) -> Document:
    batch = damage.batch
    return {
        "partition": damage.log.key,
        "cluster": damage.log.place.cluster,
        "first_offset": batch.first_offset,
        "last_offset": batch.last_offset,
        "reason": batch.why,
    }
