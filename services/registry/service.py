"""The registry for the runtime: its histories, its RPCs, its terms of leadership."""

from collections.abc import Mapping

from braid.kernel.errors import NotLeader, Unavailable
from braid.kernel.limits.assigner.leases import PRODUCER_SESSION_SECONDS
from braid.kernel.limits.registry.health import PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS
from braid.kernel.ports import Kafka, RpcService
from braid.runtime.histories.kinds import AnyKind
from braid.runtime.replica import Replica
from services.registry.histories import CLUSTERS, STREAMS
from services.registry.peers import AssignerPeers
from services.registry.reconciler.gauges import Gauges
from services.registry.servicer.methods import NAME, registry_rpc
from services.registry.servicer.request_context import RequestContext
from services.registry.term import Term, Tuning

TUNING_DEFAULT = Tuning(PRODUCER_SESSION_SECONDS, PROBE_INTERVAL_SECONDS, PROBE_TIMEOUT_SECONDS)


class RegistryService:
    """A `braid.runtime.service.Service`: the registry in one replica."""

    def __init__(self, kafka: Kafka, tuning: Tuning = TUNING_DEFAULT) -> None:
        """Prepares the service; it reaches clusters through `kafka`."""
        self._kafka = kafka
        self._tuning = tuning
        self._term: Term | None = None
        self._gauges: Gauges | None = None

    @property
    def name(self) -> str:
        """See `Service.name`."""
        return NAME

    @property
    def kinds(self) -> Mapping[str, AnyKind]:
        """See `Service.kinds`."""
        return {CLUSTERS.name: CLUSTERS, STREAMS.name: STREAMS}

    def rpc(self, replica: Replica) -> RpcService:
        """See `Service.rpc`."""
        return registry_rpc(RequestContext(replica, lambda: self._present(replica)))

    async def lead(self, replica: Replica) -> None:
        """See `Service.lead`."""
        self._gauges = self._gauges or Gauges(replica.metrics)
        peers = AssignerPeers(replica.client("assigner"))
        try:
            self._term = Term(replica, self._kafka, peers, self._tuning, self._gauges)
        except NotLeader:  # over before it began
            return
        counting = replica.host.tasks.spawn(replica.waits.lead(), f"{replica.instance} waits")
        try:
            await self._term.run()
        finally:
            self._term = None
            counting.cancel()
            await counting.ended()

    async def follow(self, replica: Replica) -> None:
        """See `Service.follow`: followers track how long channels have waited."""
        await replica.waits.follow()

    def _present(self, replica: Replica) -> Term:
        replica.require_leader()
        if self._term is None:
            raise Unavailable("the registry's leader is only just starting", remedy="try again")
        return self._term
