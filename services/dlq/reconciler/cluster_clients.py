"""Clients to read logs and commits from clusters: one admin and one offsets client per cluster, opened on first use."""

from typing import NamedTuple

from braid.kernel.ports import Kafka, KafkaAdmin, KafkaOffsets
from services.dlq.model.channels import ClusterPlace


class ClusterClient(NamedTuple):
    """The admin and offsets clients of one cluster."""

    admin: KafkaAdmin
    offsets: KafkaOffsets


class ClusterClients:
    """Clients by cluster; at most one per cluster that the registry lists."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._clients: dict[ClusterPlace, ClusterClient] = {}

    def client(self, place: ClusterPlace) -> ClusterClient:
        """The clients of one cluster, opened if needed."""
        if place not in self._clients:
            cluster = self._kafka.cluster(place.bootstrap, place.security_profile)
            self._clients[place] = ClusterClient(cluster.admin(), cluster.offsets())
        return self._clients[place]

    async def close(self) -> None:
        """Closes all clients."""
        clients, self._clients = list(self._clients.values()), {}
        for each in clients:
            await each.admin.close()
            await each.offsets.close()
