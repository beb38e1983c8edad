"""Connections to ask clusters about logs and commits: one admin and one offsets client a cluster, opened when used."""

from typing import NamedTuple

from braid.kernel.ports import Kafka, KafkaAdmin, KafkaOffsets
from services.dlq.model.channels import ClusterPlace


class ClusterClient(NamedTuple):
    """Clients of one cluster."""

    admin: KafkaAdmin
    offsets: KafkaOffsets


class ClusterClients:
    """Clients by cluster; there are as many as the registry names."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._clients: dict[ClusterPlace, ClusterClient] = {}

    def client(self, place: ClusterPlace) -> ClusterClient:
        """Those of one cluster."""
        if place not in self._clients:
            cluster = self._kafka.cluster(place.bootstrap, place.security_profile)
            self._clients[place] = ClusterClient(cluster.admin(), cluster.offsets())
        return self._clients[place]

    async def close(self) -> None:
        """Frees connections."""
        clients, self._clients = list(self._clients.values()), {}
        for each in clients:
            await each.admin.close()
            await each.offsets.close()
