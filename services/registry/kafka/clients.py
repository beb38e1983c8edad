"""Clients of Kafka clusters for one term: one admin and one offsets client each, created on first use. No rules."""

from collections.abc import Iterable, Sequence

from braid.kernel.errors import ClusterUnavailable, Invalid
from braid.kernel.ports import ClusterDescription, Kafka, KafkaAdmin, KafkaCluster, KafkaOffsets
from services.registry.model.clusters.cluster import Cluster
from services.registry.model.clusters.specs import ClusterSpec

_Address = tuple[str, str]


class Access:
    """Clients by cluster address, so that a cluster that moves gets new ones."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._admins: dict[tuple[_Address, str], KafkaAdmin] = {}
        self._offsets: dict[_Address, KafkaOffsets] = {}

    def admin(self, cluster: Cluster, purpose: str = "work") -> KafkaAdmin:
        """The admin client of a cluster; probes use their own, so that long calls do not delay them."""
        key = (_address(cluster.spec), purpose)
        if key not in self._admins:
            self._admins[key] = self._open(cluster.spec).admin()
        return self._admins[key]

    async def described(self, cluster: Cluster) -> ClusterDescription:
        """A registered cluster's own description.

        Raises:
            ClusterUnavailable: it does not answer, or was replaced and this is not recorded yet.
        """
        found = await self.admin(cluster).describe_cluster()
        if found.cluster_id != cluster.kafka_cluster_id:
            raise ClusterUnavailable(f"cluster {cluster.name} was replaced, which is still to be recorded")
        return found

    def offsets(self, cluster: Cluster) -> KafkaOffsets:
        """The client for committed offsets."""
        key = _address(cluster.spec)
        if key not in self._offsets:
            self._offsets[key] = self._open(cluster.spec).offsets()
        return self._offsets[key]

    def check_profile(self, spec: ClusterSpec, advertised: Iterable[str] = ()) -> Sequence[str]:
        """Checks that a security profile may be used for a declared cluster, without connecting.

        Args:
            spec: The declaration.
            advertised: Addresses that its brokers advertise; if empty, those of the declaration are checked.

        Returns:
            Warnings about the profile, for people.

        Raises:
            Invalid: there is no such profile (`spec.security_profile`), or it names other hosts (`spec.bootstrap`).
        """
        addresses = ",".join(advertised) or spec.bootstrap
        try:
            return self._kafka.check_profile(addresses, spec.security_profile)
        except Invalid as error:
            told = addresses != spec.bootstrap and error.field == "bootstrap"
            message = f"{spec.bootstrap} leads to other brokers: {error.message}" if told else error.message
            raise Invalid(message, field=f"spec.{error.field}", remedy=error.remedy) from error

    def user(self, spec: ClusterSpec) -> str:
        """The Kafka user that the registry logs in as there; '' where its profile does not say, or is gone."""
        try:
            return self._kafka.user(spec.security_profile)
        except Invalid:
            return ""

    def once(self, spec: ClusterSpec) -> KafkaAdmin:
        """An admin client for an unregistered cluster; the caller closes it. Raises `Invalid`."""
        return self._open(spec).admin()

    def reader(self, spec: ClusterSpec) -> KafkaCluster:
        """The Kafka port of a cluster, to read its logs; the caller closes the clients it opens."""
        return self._open(spec)

    async def close(self) -> None:
        """Closes all clients."""
        admins, self._admins = self._admins, {}
        offsets, self._offsets = self._offsets, {}
        for admin in admins.values():
            await admin.close()
        for client in offsets.values():
            await client.close()

    def _open(self, spec: ClusterSpec) -> KafkaCluster:
        return self._kafka.cluster(spec.bootstrap, spec.security_profile)


def _address(spec: ClusterSpec) -> _Address:
    return spec.bootstrap, spec.security_profile
