"""Reads a Kafka cluster's state, its brokers' settings, and those of Braid's topics there. Judges nothing."""

import asyncio
import contextlib
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from braid.api.registry.v1.cluster_pb2 import Cluster
from braid.api.registry.v1.stream_pb2 import (
    CHANNEL_STATE_ACTIVE,
    CHANNEL_STATE_DRAINING,
    CHANNEL_STATE_STANDBY,
    Channel,
    Stream,
)
from braid.cli.core.limits import CLI_PROBE_SECONDS
from braid.cli.doctor.broker_findings import IN_SYNC, BrokerFacts, TopicFacts
from braid.cli.doctor.cluster_findings import ClusterFacts
from braid.cli.manifests.stream_warnings import UNCLEAN
from braid.cli.resources.clusters.health import with_evidence
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.limits.registry.traffic import LOAD_BROKERS_AT_ONCE, TOPICS_READ_MAX
from braid.kernel.ports import KafkaAdmin

if TYPE_CHECKING:
    from braid.cli.core.session import Session

T = TypeVar("T")
_WRITTEN: Final = (CHANNEL_STATE_ACTIVE, CHANNEL_STATE_STANDBY)


async def ask_cluster(session: "Session", cluster: Cluster, streams: Sequence[Stream]) -> ClusterFacts:
    """Asks a cluster from here, with this process's own credentials. Failures are part of the answer."""
    admin = None
    with contextlib.suppress(BraidError):  # then what was listed has to do
        cluster = await with_evidence(session, cluster.name)
    try:
        admin = session.ports.kafka.cluster(cluster.spec.bootstrap, cluster.spec.security_profile).admin()
        described = await _within(admin.describe_cluster())
        brokers = await _ask_brokers(admin, sorted(described.brokers))
        facts = ClusterFacts(cluster, described, brokers=brokers)
        try:
            return facts._replace(topics=await _ask_topics(admin, _topics_on(cluster.name, streams)))
        except BraidError as error:
            return facts._replace(unread=error)
    except BraidError as error:
        return ClusterFacts(cluster, None, error)
    finally:
        if admin is not None:
            await admin.close()


async def _within(asking: Awaitable[T]) -> T:
    """Waits for an answer, as long as people would. Raises `Unavailable`."""
    try:
        async with asyncio.timeout(CLI_PROBE_SECONDS):
            return await asking
    except TimeoutError as error:
        raise Unavailable(f"no answer in {CLI_PROBE_SECONDS:g} s") from error


async def _ask_brokers(admin: KafkaAdmin, brokers: Sequence[int]) -> Sequence[BrokerFacts]:
    at_once = asyncio.Semaphore(LOAD_BROKERS_AT_ONCE)

    async def ask(broker: int) -> BrokerFacts:
        async with at_once:
            try:
                return BrokerFacts(broker, await _within(admin.describe_broker(broker)))
            except BraidError as error:
                return BrokerFacts(broker, None, error)

    return await asyncio.gather(*(ask(broker) for broker in brokers))


def _topics_on(cluster: str, streams: Sequence[Stream]) -> Mapping[str, Channel]:
    """Channels on the cluster that carry records or may soon, by topic."""
    return {
        channel.topic: channel
        for stream in streams
        for channel in stream.status.channels
        if channel.cluster == cluster and channel.state in (*_WRITTEN, CHANNEL_STATE_DRAINING)
    }


async def _ask_topics(admin: KafkaAdmin, topics: Mapping[str, Channel]) -> Sequence[TopicFacts]:
    """Settings of the topics that exist, some hundreds per request."""
    names, found = sorted(topics), []
    for start in range(0, len(names), TOPICS_READ_MAX):
        part = names[start : start + TOPICS_READ_MAX]
        described = await _within(admin.describe_topics(part))
        configs = await _within(admin.topic_configs(sorted(described), (IN_SYNC, UNCLEAN)))
        found += [_facts(topics[name], described[name].copies, config) for name, config in configs.items()]
    return found


def _facts(channel: Channel, copies: int, config: Mapping[str, str]) -> TopicFacts:
    settled = 0 if channel.HasField("reassignment") else channel.replication_factor
    return TopicFacts(channel.topic, channel.state in _WRITTEN, copies, config, settled)
