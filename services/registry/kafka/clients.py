"""Clients of Kafka clusters for one term: one admin and one offsets client each, made when first used. No rules."""

from collections.abc import Iterable, Sequence

from braid.kernel.errors import ClusterUnavailable, Invalid
from braid.kernel.ports import ClusterDescription, Kafka, KafkaAdmin, KafkaCluster, KafkaOffsets
from services.registry.model.cluster_specs import ClusterSpec
from services.registry.model.clusters import Cluster

_Address = tuple[str, str]


class Access:
    """Keeps clients by address, so that a cluster that moves gets new ones."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._admins: dict[tuple[_Address, str], KafkaAdmin] = {}
        self._offsets: dict[_Address, KafkaOffsets] = {}

    def admin(self, cluster: Cluster, purpose: str = "work") -> KafkaAdmin:
        """The admin client; probes use one of their own, so that long calls do not make them late."""
        key = (_address(cluster.spec), purpose)
        if key not in self._admins:
            self._admins[key] = self._open(cluster.spec).admin()
        return self._admins[key]

    async def described(self, cluster: Cluster) -> ClusterDescription:
        """What a registered cluster says of itself.

        Raises:
            ClusterUnavailable: it does not answer, or was replaced, which is still to be recorded.
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
        """Checks that a declared cluster may be sent its security profile, without connecting.

        Args:
            spec: The declaration.
            advertised: Addresses that its brokers tell; those of the declaration are checked where there are none.

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

    def once(self, spec: ClusterSpec) -> KafkaAdmin:
        """An admin client for a cluster that is not registered; the caller closes it. Raises `Invalid`."""
        return self._open(spec).admin()

    def reader(self, spec: ClusterSpec) -> KafkaCluster:
        """What reads a cluster's logs, by clients that whoever opens them closes."""
        return self._open(spec)

    async def close(self) -> None:
        """Frees all connections."""
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
