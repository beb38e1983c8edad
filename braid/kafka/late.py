"""Kafka whose clients are imported when one is opened. Most commands open none, and are spared half a second."""

from collections.abc import Sequence

from braid.kernel.ports import Kafka, KafkaCluster


class LateKafka:
    """The port to Kafka of a process that may not need it.

    Args:
        client_id: The name under which brokers know the process.
    """

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._kafka: Kafka | None = None

    def cluster(self, bootstrap: str, security_profile: str) -> KafkaCluster:
        """See the port."""
        return self._loaded().cluster(bootstrap, security_profile)

    def check_profile(self, bootstrap: str, security_profile: str) -> Sequence[str]:
        """See the port."""
        return self._loaded().check_profile(bootstrap, security_profile)

    def user(self, security_profile: str) -> str:
        """See the port."""
        return self._loaded().user(security_profile)

    def _loaded(self) -> Kafka:
        if self._kafka is None:
            from braid.kafka.cluster import AioKafka

            self._kafka = AioKafka(self._client_id)
        return self._kafka
