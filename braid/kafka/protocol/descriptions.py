"""Describes the topics of an answer to a metadata request, in the words of `KafkaAdmin`. Pure."""

from braid.kafka.errors import ACCESS_DENIED, raise_error
from braid.kafka.permissions import Need
from braid.kafka.protocol.wire import ClusterMetadata
from braid.kernel.ports import TopicDescription


def described(found: ClusterMetadata) -> dict[str, TopicDescription]:
    """Returns topics that exist. Raises `ClusterAccessDenied` for one that the client may not see: it is not gone."""
    for name, told in sorted(found.topics.items()):
        if told.error_code in ACCESS_DENIED:
            raise_error(told.error_code, f"topic {name}", need=Need("Describe", name))
    return {
        name: TopicDescription(
            name,
            told.topic_id,
            [told.leaders[at] for at in sorted(told.leaders)],
            told.thin,
            [told.epochs[at] for at in sorted(told.epochs)],
            [told.replicas[at] for at in sorted(told.replicas)],
        )
        for name, told in sorted(found.topics.items())
        if told.error_code == 0
    }
