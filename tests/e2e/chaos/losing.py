"""Clusters that return without what they had acknowledged: on an empty disk, or with a log that was cut short.

Members stand still for a moment before the cluster dies, so that records are lost which nobody has consumed. What is
lost must be told to the offset, and a person gives up exactly that; everything else goes on.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from braid.api.registry.v1.registry_service_pb2 import CloseChannelRequest, CloseChannelResponse
from braid.api.registry.v1.stream_pb2 import Channel, ChannelState
from braid.kernel.offset_ranges import OffsetRange, OffsetRanges
from testbed.checkers import facts
from testbed.ground.disks import Disk
from testbed.ground.field import Field, Mark, now_ms
from testbed.ground.load import MEMBERS
from tests.e2e.chaos.faults import arrived, left_behind
from tests.e2e.chaos.operating import larger, repartition, smaller

UNREAD_MIN: Final = 60  # acknowledged records that nobody has consumed when the cluster dies
CUT_SHARE: Final = 0.5  # of a log's batches stay
TOLD_SECONDS: Final = 60.0
CALL_SECONDS: Final = 30.0
_DRAINING: Final = ChannelState.CHANNEL_STATE_DRAINING


async def return_empty(field: Field, chance: random.Random) -> None:
    """The cluster that carries the stream dies; it returns on an empty disk, as another Kafka cluster."""
    name = await _carrier_of_one_disk(field)
    with field.marked(name, "returned empty") as mark:
        await _dies_with_unread_records(field, name)
        disk = field.disk(name)
        field.kept += [*disk.told(), *disk.topic_changes()]
        ends = {log: disk.end(log) for log in disk.logs()}
        field.archived |= {facts.Topic(log.cluster, log.topic) for log in ends}
        field.kept += [(now_ms(), facts.Destroyed(log, 0, end)) for log, end in ends.items()]
        disk.replace()
        await field.mesh.start(name)
        await _told(field, mark)
    await field.progress()


async def return_cut(field: Field, chance: random.Random) -> None:
    """The cluster that carries the stream dies; it returns without the end of one log."""
    await _return_cut(field, _nothing_else)


async def return_cut_amid_repartition(field: Field, chance: random.Random) -> None:
    """The same; and nobody has told what is lost when the lane, elsewhere by now, gets another number of partitions."""
    change = chance.choice((smaller, larger))

    async def meanwhile() -> None:
        await repartition(field, field.carrier(), change)

    await _return_cut(field, meanwhile)


async def _return_cut(field: Field, meanwhile: Callable[[], Awaitable[None]]) -> None:
    name = await _carrier_of_one_disk(field)
    with field.marked(name, "returned cut short") as mark:
        await _dies_with_unread_records(field, name)
        disk = field.disk(name)
        log = _longest(field, disk)
        cut, end = disk.batch(log, CUT_SHARE), disk.end(log)
        field.kept += disk.log_facts(log, cut.base_offset)
        field.kept.append((now_ms(), facts.Destroyed(log, cut.base_offset, end)))
        disk.cut(log, cut)
        mark.what = f"returned without {log.topic}/{log.partition} from {cut.base_offset} up to {end}"
        await asyncio.gather(field.mesh.start(name), meanwhile())
        await _told(field, mark)
    await field.progress()


async def _carrier_of_one_disk(field: Field) -> str:
    """The cluster that carries the stream; the stream moves first where that cluster has several brokers."""
    await field.healthy()
    name = field.carrier()
    clusters = field.mesh.ready.clusters
    if len(clusters[name].brokers) == 1:
        return name
    target = next(other for other, each in clusters.items() if len(each.brokers) == 1)
    with field.marked(target, f"takes the stream from {name}", hit=False) as mark:
        await field.move(target)
        await arrived(field, name, mark.begin_ms)
        await field.progress()
    await field.healthy()
    return target


async def _nothing_else() -> None:
    """Does nothing: the cluster just returns."""


async def _dies_with_unread_records(field: Field, name: str) -> None:
    for member in MEMBERS:
        field.fleet.pause(member)
    await field.progress(acked=UNREAD_MIN, processed=0)
    at = now_ms()
    await field.mesh.kill(name)
    for member in MEMBERS:
        field.fleet.resume(member)
    field.kills += 1 + len(MEMBERS)
    await left_behind(field, name)
    await arrived(field, name, at)
    await field.progress()


async def _told(field: Field, mark: Mark) -> None:
    """Waits until what a cluster lost is told and given up."""
    what = f"what {mark.subject} lost is told and given up"
    await field.asked(lambda: _all_given_up(field, mark.subject), what, TOLD_SECONDS)
    field.measured("loss_told_and_given_up_ms", now_ms() - mark.begin_ms)


async def _all_given_up(field: Field, name: str) -> bool:
    """Closes each channel whose loss is told; whether none on the cluster drains any more."""
    waiting = [each for each in await field.channels() if each.cluster == name and each.state == _DRAINING]
    for channel in waiting:
        if channel.lost and not channel.stranded:
            await _give_up(field, channel)
    return not waiting


async def _give_up(field: Field, channel: Channel) -> None:
    """Closes a channel, once all that this would give up is what its cluster lost."""
    registry = field.client.service("registry")
    asked = CloseChannelRequest(channel=channel.name, dry_run=True)
    would = await registry.unary("CloseChannel", asked, CloseChannelResponse, timeout_seconds=CALL_SECONDS)
    if list(would.given_up) != list(channel.lost):
        return  # its groups have work left, or producers have not said how far they came
    request = CloseChannelRequest(channel=channel.name, accept_loss=channel.lost, reason="chaos took its disk")
    await registry.unary("CloseChannel", request, CloseChannelResponse, timeout_seconds=CALL_SECONDS)
    field.given_up[facts.Topic(channel.cluster, channel.topic)] = now_ms(), _ranges(channel)


def _ranges(channel: Channel) -> OffsetRanges:
    return tuple(OffsetRange(each.partition, each.first, each.last) for each in channel.lost)


def _longest(field: Field, disk: Disk) -> facts.LogId:
    """The longest log of the channel of lane live that was written to when its cluster died."""
    lines = (line for line in reversed(field.journals.lines) if line.kind == "acked" and line.cluster == disk.cluster)
    topic = next(line.topic for line in lines if ".live." in line.topic)
    return max((log for log in disk.logs() if log.topic == topic), key=disk.end)
