"""An operator's actions and questions on a Kafka cluster, for tests on clusters of several brokers.

Reassignments and preferred elections as Cruise Control makes them; who leads, coordinates and controls; whose copies
are in sync. Only `braid.kafka`'s connections are used, not its admin client: tests judge that.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from aiokafka.protocol.admin import AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.types import Array, CompactArray, CompactString, Int8, Int16, Int32, Schema, String, TaggedFields

from braid.kafka.errors import COORDINATOR_RETRY
from braid.kafka.protocol.schemas import DescribeTopicsRequest
from braid.kafka.protocol.wire import ANY_BROKER, Wire
from braid.kafka.security import Security
from braid.kernel.errors import ClusterUnavailable
from testbed.patience import until

REQUEST_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 120.0
_GROUP: Final = 0
_PREFERRED: Final = 0
_UNCLEAN: Final = 1
_NOT_NEEDED: Final = 84  # ELECTION_NOT_NEEDED: the wanted replica leads already
_METADATA_TOPIC: Final = "__cluster_metadata"


class ElectLeadersResponseV1(Response):
    """The response to ElectLeaders, with a result per partition."""

    API_KEY = 43
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        (
            "results",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(("partition", Int32), ("error_code", Int16), ("error_message", String("utf-8"))),
                ),
            ),
        ),
    )


class ElectLeadersRequestV1(RequestStruct):
    """The request that elects leaders, ElectLeaders (KIP-460)."""

    API_KEY = 43
    API_VERSION = 1
    RESPONSE_TYPE = ElectLeadersResponseV1
    SCHEMA = Schema(
        ("election_type", Int8),
        ("topics", Array(("topic", String("utf-8")), ("partitions", Array(Int32)))),
        ("timeout_ms", Int32),
    )


class ElectLeadersRequest(Request[ElectLeadersRequestV1]):
    """Asks the controller to elect leaders of a topic's partitions."""

    API_KEY = 43

    def __init__(self, kind: int, topic: str, partitions: Sequence[int]) -> None:
        self._fields = (kind, [(topic, list(partitions))], int(REQUEST_SECONDS * 1_000))

    def build(self, request_struct_class: type[ElectLeadersRequestV1]) -> ElectLeadersRequestV1:
        """The request on the wire."""
        return request_struct_class(*self._fields)


class DescribeQuorumResponseV0(Response):
    """The quorum's leader; what follows it is not read."""

    API_KEY = 55
    API_VERSION = 0
    SCHEMA = Schema(
        ("error_code", Int16),
        (
            "topics",
            CompactArray(
                ("topic", CompactString()),
                (
                    "partitions",
                    CompactArray(("partition", Int32), ("error_code", Int16), ("leader", Int32)),
                ),
            ),
        ),
    )


class DescribeQuorumRequestV0(RequestStruct):
    """The request that describes the quorum, DescribeQuorum (KIP-595)."""

    API_KEY = 55
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = DescribeQuorumResponseV0
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(
                ("topic", CompactString()),
                ("partitions", CompactArray(("partition", Int32), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class DescribeQuorumRequest(Request[DescribeQuorumRequestV0]):
    """Asks who leads the quorum of controllers."""

    API_KEY = 55

    def build(self, request_struct_class: type[DescribeQuorumRequestV0]) -> DescribeQuorumRequestV0:
        """The request on the wire."""
        return request_struct_class([(_METADATA_TOPIC, [(0, {})], {})], {})


class Copies(NamedTuple):
    """One partition: its leader (-1 for none) and that leader's epoch, its replicas in order, and those in sync."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: frozenset[int]

    @property
    def whole(self) -> bool:
        """Whether it has a leader and every copy is in sync."""
        return self.leader >= 0 and self.in_sync >= set(self.replicas)


class KafkaOperator:
    """The operator of one cluster.

    Args:
        wire: Connections to it.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def copies(self, topic: str) -> dict[int, Copies]:
        """A topic's partitions."""
        await self._wire.metadata([])  # brokers that moved
        answer = await self._wire.ask(ANY_BROKER, DescribeTopicsRequest([topic]))
        (found,) = answer.topics
        assert found[0] == 0, f"topic {topic}: error {found[0]}"
        return {
            number: Copies(leader, epoch, tuple(replicas), frozenset(in_sync))
            for _, number, leader, epoch, replicas, in_sync, *_ in found[4]
        }

    async def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition, once one does."""

        async def led() -> int | None:
            leader = (await self.copies(topic))[partition].leader
            return leader if leader >= 0 else None

        return await self._once(led, f"a leader of {topic}-{partition}")

    async def coordinator(self, group: str) -> int:
        """The broker that coordinates a group, once one does."""

        async def found() -> int | None:
            answer = await self._wire.ask(ANY_BROKER, FindCoordinatorRequest(group, _GROUP))
            assert answer.error_code in (0, *COORDINATOR_RETRY), answer.error_code
            return None if answer.error_code else int(answer.coordinator_id)

        return await self._once(found, f"a coordinator of {group}")

    async def controller(self) -> int:
        """The active controller, once there is one."""

        async def led() -> int | None:
            answer = await self._wire.ask(ANY_BROKER, DescribeQuorumRequest())
            if answer.error_code:
                return None
            ((_, ((_, code, leader),)),) = answer.topics
            return leader if code == 0 and leader >= 0 else None

        return await self._once(led, "an active controller")

    async def reassign(self, topic: str, wanted: Mapping[int, Sequence[int]], *, wait: bool = True) -> None:
        """Gives partitions other replicas, the first of each preferred; waits until the copies are there and in sync.

        Raises:
            AssertionError: the controller refuses.
        """
        partitions: list[tuple[object, ...]] = [(number, list(replicas), {}) for number, replicas in wanted.items()]
        request = AlterPartitionReassignmentsRequest(int(REQUEST_SECONDS * 1_000), [(topic, partitions, {})], {})
        answer = await self._wire.ask(ANY_BROKER, request)
        refused = [code for _, each, *_ in answer.responses for _, code, *_ in each if code]
        assert not answer.error_code, (answer.error_code, answer.error_message)
        assert not refused, (topic, refused)
        if wait:
            await self.settled(topic, wanted)

    async def settled(self, topic: str, wanted: Mapping[int, Sequence[int]]) -> None:
        """Waits until partitions have exactly these replicas, all in sync."""

        async def there() -> bool:
            found = await self.copies(topic)
            return all(
                found[number].replicas == tuple(replicas) and found[number].whole for number, replicas in wanted.items()
            )

        await until(there, f"{topic} has its replicas as {dict(wanted)}", SETTLE_SECONDS, poll=0.1)

    async def reassigning(self) -> int:
        """How many partitions of the cluster are being reassigned."""
        request = ListPartitionReassignmentsRequest(int(REQUEST_SECONDS * 1_000), None, {})
        return sum(len(partitions) for _, partitions, *_ in (await self._wire.ask(ANY_BROKER, request)).topics)

    async def elect_preferred(self, topic: str, partitions: Sequence[int]) -> None:
        """Makes the first replica of each partition its leader. Raises `AssertionError` when that is refused."""
        await self._elect(_PREFERRED, topic, partitions)

    async def elect_unclean(self, topic: str, partitions: Sequence[int]) -> None:
        """Makes any live replica the leader of partitions that have none, whatever is lost with the others."""
        await self._elect(_UNCLEAN, topic, partitions)

    async def whole(self, topic: str) -> None:
        """Waits until every partition of a topic has a leader and all copies in sync."""

        async def in_sync() -> bool:
            return all(each.whole for each in (await self.copies(topic)).values())

        await until(in_sync, f"every copy of {topic} is in sync", SETTLE_SECONDS, poll=0.1)

    async def _elect(self, kind: int, topic: str, partitions: Sequence[int]) -> None:
        answer = await self._wire.ask(ANY_BROKER, ElectLeadersRequest(kind, topic, partitions))
        refused = {
            number: (code, message)
            for _, each in answer.results
            for number, code, message in each
            if code not in (0, _NOT_NEEDED)
        }
        assert not answer.error_code, answer.error_code
        assert not refused, (topic, refused)

    async def _once(self, ask: Callable[[], Awaitable[int | None]], what: str) -> int:
        """Asks until there is an answer, through brokers that have just gone."""
        found: list[int] = []

        async def look() -> bool:
            try:
                answer = await ask()
            except ClusterUnavailable:
                return False
            found.extend([] if answer is None else [answer])
            return bool(found)

        await until(look, what, SETTLE_SECONDS, poll=0.1)
        return found[0]


@asynccontextmanager
async def operating(bootstrap: str) -> AsyncIterator[KafkaOperator]:
    """An operator of the cluster behind some addresses."""
    wire = Wire(bootstrap, "operator", Security(), REQUEST_SECONDS)
    try:
        yield KafkaOperator(wire)
    finally:
        await wire.close()
        await asyncio.sleep(0)  # closed connections leave the loop
