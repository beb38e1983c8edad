"""Committed offsets of groups on a real cluster, with metadata and borrowed generations."""

from collections.abc import Mapping, Sequence

from aiokafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest
from aiokafka.protocol.api import Response

from braid.kafka.errors import FENCED, GROUP_NOT_FOUND, UNKNOWN_TOPIC, check, raise_error
from braid.kafka.groups.coordinator import Coordinators
from braid.kafka.permissions import Need
from braid.kafka.protocol.epochs import CommitRequest, CommittedRequest
from braid.kafka.protocol.schemas import ListGroupStatesRequest
from braid.kafka.protocol.wire import Wire, bounded
from braid.kernel.errors import Fenced
from braid.kernel.limits.kafka import KAFKA_CALL_SECONDS
from braid.kernel.ports import Committed, Generation, TopicPartition

_STANDALONE = Generation(-1, "")
_NOT_COMMITTED = Committed(-1, "")


class AioOffsets:
    """`KafkaOffsets` over the group's coordinator, asked directly."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._coordinators = Coordinators(wire)

    async def commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None
    ) -> None:
        """See `KafkaOffsets.commit`."""
        if not offsets:
            return
        number, member = generation or _STANDALONE
        request = CommitRequest(group, number, member, offsets)
        answer = await self._coordinators.ask(group, request, _commit_codes, "commit")
        failed = {
            (topic, partition): code for topic, partitions in answer.topics for partition, code in partitions if code
        }
        if failed:
            # A fence concerns the whole request, so it is told first.
            (topic, partition), code = min(failed.items(), key=lambda item: item[1] not in FENCED)
            if code == GROUP_NOT_FOUND:
                raise Fenced(f"group {group} has no member {member!r} of generation {number}")
            raise_error(code, f"group {group}, {topic} partition {partition}", need=Need("Read", topic, group))

    async def committed(
        self, group: str, partitions: Sequence[TopicPartition] | None
    ) -> Mapping[TopicPartition, Committed]:
        """See `KafkaOffsets.committed`."""
        if partitions is not None and not partitions:
            return {}
        answer = await self._coordinators.ask(group, CommittedRequest(group, partitions), _fetch_codes, "read")
        check(answer.error_code, f"group {group}", need=Need("Describe", group=group))
        result = dict.fromkeys(partitions or (), _NOT_COMMITTED)
        for topic, found in answer.topics:
            for number, offset, leader_epoch, metadata, code in found:
                if code != UNKNOWN_TOPIC:
                    check(code, f"group {group}, {topic} partition {number}", need=Need("Describe", topic, group))
                    result[TopicPartition(topic, number)] = Committed(offset, metadata or "", leader_epoch)
        return result

    async def groups(self) -> Sequence[str]:
        """See `KafkaOffsets.groups`. Each broker lists those that it coordinates."""
        found: set[str] = set()
        async with bounded(KAFKA_CALL_SECONDS, "listing groups"):
            for broker in (await self._wire.metadata([])).brokers:
                listed = await self._wire.ask(broker, ListGroupStatesRequest())
                check(listed.error_code, "groups", need=Need("Describe"))
                found.update(str(name) for name, *_ in listed.groups)
        return sorted(found)

    async def group_state(self, group: str) -> str:
        """See `KafkaOffsets.group_state`."""
        answer = await self._coordinators.ask(
            group, DescribeGroupsRequest([group]), lambda told: [told.groups[0][0]], "describe"
        )
        code, _, state, *_ = answer.groups[0]
        if code not in (0, GROUP_NOT_FOUND):
            raise_error(code, f"group {group}", need=Need("Describe", group=group))
        if code == 0 and state != "Dead":
            return str(state)
        # Groups of newer protocols (KIP-848, share groups) are dead to DescribeGroups, and only listed.
        listed = await self._coordinators.ask(group, ListGroupStatesRequest(), lambda told: [told.error_code], "list")
        check(listed.error_code, "groups", need=Need("Describe"))
        return next((str(state) for name, _, state, *_ in listed.groups if name == group), "Dead")

    async def delete_group(self, group: str) -> None:
        """See `KafkaOffsets.delete_group`."""
        answer = await self._coordinators.ask(
            group, DeleteGroupsRequest([group]), lambda told: [code for _, code in told.results], "delete"
        )
        for _, code in answer.results:
            if code != GROUP_NOT_FOUND:
                check(code, f"group {group}", need=Need("Delete", group=group))

    async def close(self) -> None:
        """Frees connections."""
        await self._coordinators.close()


def _commit_codes(answer: Response) -> set[int]:
    return {code for _, partitions in answer.topics for _, code in partitions}


def _fetch_codes(answer: Response) -> set[int]:
    return {answer.error_code, *(code for _, partitions in answer.topics for *_, code in partitions)}
