"""Records that groups rejected in place: listed from commits, read from the log, copied to the dlq lane.

Commits and records are on the clusters, and are read there: services are asked only where they are.
"""

import contextlib
from collections.abc import AsyncGenerator, Iterable
from typing import Final, NamedTuple

from braid.api.assigner.v1 import group_pb2
from braid.api.lagmon.v1 import lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from braid.api.registry.v1 import stream_pb2
from braid.cli.core.documents import Document
from braid.cli.core.limits import CLI_READ_SECONDS
from braid.cli.core.lists import all_channels, all_clusters, all_groups
from braid.cli.core.output import API_VERSION, Column, Columns, Format, Item, render, render_line
from braid.cli.core.record_documents import RecordPlace, record_document
from braid.cli.core.session import Session, missing
from braid.cli.resources.lag.listing import list_lag
from braid.client.reading.range_reader import RangeReader
from braid.kernel.envelope import decode
from braid.kernel.errors import ClusterUnavailable, NotFound, OffsetOutOfRange, Unavailable
from braid.kernel.ids import ChannelId, LeaseId
from braid.kernel.limits.client import FETCH_RECORDS_MAX
from braid.kernel.ports import KafkaCluster, KafkaRecord, OffsetAt, TopicPartition

COLUMNS: Final = Columns(
    (
        Column("GROUP", shrinks=True),
        Column("OFFSETS"),
        Column("IN LOG"),
        Column("CLUSTER"),
        Column("TOPIC", wide=True),
    ),
    age="COMMITTED",
)


class Rejected(NamedTuple):
    """Consecutive offsets that a group rejected in one partition.

    Attributes:
        group: The group.
        lease: The partition, as the mesh names it.
        cluster: The cluster it is on.
        at: The partition, as Kafka names it.
        first: The first offset.
        last: The last offset.
        log_start: The log's first offset; lower ones were deleted.
        commit_time_ms: Time of the newest commit that contains them; 0 if unknown.
    """

    group: str
    lease: LeaseId
    cluster: str
    at: TopicPartition
    first: int
    last: int
    log_start: int
    commit_time_ms: int = 0

    @property
    def name(self) -> str:
        """`logs/live/1/0@17-23`, or `…@17` for one."""
        return f"{self.lease}@{self.first}" + (f"-{self.last}" if self.last > self.first else "")

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.last - self.first + 1

    @property
    def kept(self) -> int:
        """The number of offsets still in the log."""
        return max(0, self.last + 1 - max(self.first, self.log_start))


async def get_rejected(session: Session, group: str, stream: str, fetch: int, format: Format) -> int:
    """Prints rejected ranges; with `fetch` also this many of their records, oldest first.

    Raises:
        NotFound: the group does not exist.
    """
    found = await find_rejected(session, group, stream)
    if fetch:
        session.interrupt_code = 0
        async with contextlib.aclosing(read_rejected(session, found, fetch)) as records:
            async for each, record in records:
                _print(session, each, record, format)
        return 0
    if not found and format in (Format.TABLE, Format.WIDE):
        session.terminal.note(f"nothing that is known was rejected{f' by {group}' if group else ''}")
        return 0
    items = [rejected_item(each) for each in found]
    text = render(format, COLUMNS, items, session.now_ms, narrow=session.terminal.narrow)
    session.terminal.print_table(format, text)
    return 0


async def find_rejected(session: Session, group: str, stream: str) -> list[Rejected]:
    """Rejected ranges in groups' newest commits; a note names clusters that do not answer.

    Raises:
        NotFound: the group does not exist.
    """
    groups = await all_groups(session)
    wanted = [each for each in groups if group in ("", each.name) and (not stream or stream in each.spec.streams)]
    if group and all(each.name != group for each in groups):
        raise missing(NotFound(f"there is no group {group}"), group, [each.name for each in groups])
    channels = await all_channels(session, stream)
    found: list[Rejected] = []
    for cluster, kafka in await _clusters(session, {each.cluster for each in channels}):
        topics = {each.topic: each for each in channels if each.cluster == cluster}
        try:
            found += await _on_cluster(kafka, wanted, topics)
        except ClusterUnavailable:
            session.terminal.note(f"cluster {cluster} does not answer: records rejected there are not listed")
    times = await _commit_times(session, group, stream) if found else {}
    timed = [each._replace(commit_time_ms=times.get((each.group, each.cluster, each.at), 0)) for each in found]
    return sorted(timed, key=lambda each: (each.group, each.lease, each.first))


async def read_rejected(
    session: Session, found: Iterable[Rejected], most: int
) -> AsyncGenerator[tuple[Rejected, KafkaRecord]]:
    """The records of ranges that are still in the log and can be decoded, at most `most`."""
    kept = [each for each in found if each.kept]
    for cluster, kafka in await _clusters(session, {each.cluster for each in kept}):
        reader = RangeReader(session.ports.host, kafka, cluster, zone="", wait_seconds=CLI_READ_SECONDS)
        try:
            for each in kept:
                if each.cluster != cluster or not most:
                    continue
                reader.begin(each.at, max(each.first, each.log_start), each.last + 1)
                async with contextlib.aclosing(_read(session, reader, each)) as records:
                    async for record in records:
                        yield each, record
                        most -= 1
                        if not most:
                            break
        finally:
            await reader.close()


def rejected_item(each: Rejected) -> Item:
    """The row of a range."""
    in_log = "all" if each.kept == each.size else str(each.kept) if each.kept else "none"
    cells = (each.group, str(each.size), in_log, each.cluster, each.at.topic)
    document: Document = {
        "apiVersion": API_VERSION,
        "kind": "Rejected",
        "name": each.name,
        "group": each.group,
        "lease": str(each.lease),
        "cluster": each.cluster,
        "topic": each.at.topic,
        "partition": each.at.partition,
        "first_offset": each.first,
        "last_offset": each.last,
        "count": each.size,
        "in_log": each.kept,
        "commit_time_ms": each.commit_time_ms,
    }
    return Item(each.name, f"rejected/{each.name}", cells, each.commit_time_ms, document)


async def _on_cluster(
    kafka: KafkaCluster, groups: Iterable[group_pb2.Group], topics: dict[str, stream_pb2.Channel]
) -> list[Rejected]:
    offsets, admin = kafka.offsets(), kafka.admin()
    found: list[Rejected] = []
    try:
        for group in groups:
            for at, committed in (await offsets.committed(group.name, None)).items():
                rejected = decode(committed.offset, committed.metadata).fields.rejected
                if not rejected or at.topic not in topics:
                    continue
                channel = topics[at.topic]
                lease = LeaseId(ChannelId.parse(channel.name), at.partition)
                start = (await admin.offsets_at({at: OffsetAt.EARLIEST}))[at]
                found += [
                    Rejected(group.name, lease, channel.cluster, at, span.start, span.end - 1, start)
                    for span in rejected
                ]
    finally:
        await offsets.close()
        await admin.close()
    return found


async def _read(session: Session, reader: RangeReader, each: Rejected) -> AsyncGenerator[KafkaRecord]:
    try:
        while (read := await reader.read(FETCH_RECORDS_MAX)) is not None:
            for batch in read.damaged:
                session.terminal.note(
                    f"{each.lease}@{batch.first_offset}-{batch.last_offset} cannot be decoded: {batch.why}"
                )
            for record in read.records:
                yield record
    except (OffsetOutOfRange, NotFound, ClusterUnavailable) as error:
        session.terminal.note(f"{each.name} cannot be read: {error.message}")


def _print(session: Session, each: Rejected, record: KafkaRecord, format: Format) -> None:
    if format is Format.JSON:
        channel = each.lease.channel
        place = RecordPlace(channel.stream, channel.lane, each.cluster, each.at.topic, each.at.partition)
        session.terminal.print(render_line({"group": each.group, **record_document(place, record)}))
    else:
        session.terminal.print_bytes(record.value or b"")


async def _clusters(session: Session, names: set[str]) -> list[tuple[str, KafkaCluster]]:
    known = {each.name: each.spec for each in await all_clusters(session)} if names else {}
    kafka = session.ports.kafka
    return [
        (name, kafka.cluster(known[name].bootstrap, known[name].security_profile))
        for name in sorted(names)
        if name in known
    ]


async def _commit_times(session: Session, group: str, stream: str) -> dict[tuple[str, str, TopicPartition], int]:
    """The times of the newest commits, from lagmon; empty if there is no lagmon."""
    scope = lagmon_api.LagFilter(group=group, stream=stream)
    try:
        rows, _ = await list_lag(session, scope, lag_pb2.LAG_DETAIL_PARTITION)
    except Unavailable as error:
        session.terminal.note(f"when it was committed is not known: {error.message}")
        return {}
    return {
        (each.group, each.cluster, TopicPartition(each.topic, each.partition)): each.commit_time_ms for each in rows
    }
