"""The handler of `PreviewClusters`: which streams would move to even out load. Changes nothing."""

from braid.api.registry.v1 import registry_service_pb2 as api
from braid.kernel.limits.registry.balancing import BALANCE_PREVIEW_MOVES
from braid.kernel.ports import Caller
from services.registry.codec.balances import cluster_preview_message, previewed_move_message
from services.registry.policy.balancing.preview import preview
from services.registry.servicer.request_context import RequestContext


class BalanceRequests:
    """Handlers of RPCs on load between clusters in one replica."""

    def __init__(self, context: RequestContext) -> None:
        """Prepares the handlers."""
        self._context = context

    async def preview(self, request: api.PreviewClustersRequest, caller: Caller) -> api.PreviewClustersResponse:
        """How load could be evened out, as the leader measured it.

        Raises:
            NotFound: a cluster to imagine away does not exist.
            AlreadyExists: a cluster to imagine exists.
        """
        balancer, world = self._context.term().balancer, self._context.world()
        found = preview(world, balancer.memory, balancer.rules, tuple(request.without), tuple(request.new_clusters))
        return api.PreviewClustersResponse(
            clusters=[cluster_preview_message(each) for each in found.clusters],
            moves=[previewed_move_message(each) for each in found.moves[:BALANCE_PREVIEW_MOVES]],
            move_count=len(found.moves),
            balanced=found.balanced,
            problems=found.problems,
            mode=balancer.rules.mode.value,
        )
