"""One task for each registered cluster, while this replica leads."""

from collections.abc import Callable, Coroutine
from functools import partial

from braid.kernel.limits.registry import RECONCILE_SECONDS
from braid.runtime.replica import Replica
from services.registry.histories import CLUSTERS
from services.registry.term_tasks import Crew


async def watch_each(
    replica: Replica, watch: Callable[[str], Coroutine[object, object, None]], looked: Callable[[], None] | None = None
) -> None:
    """Has every cluster watched by name, in a task of its own, until cancelled.

    Args:
        replica: Which leads.
        watch: Ends once the cluster is deleted; begun again when it ended and the cluster is there.
        looked: Called after each look at which clusters there are.
    """
    crew = Crew(replica.host)
    try:
        while True:
            for name, cluster in replica.aggregates.states(CLUSTERS).items():
                if cluster.exists:
                    crew.start(name, partial(watch, name))
            if looked is not None:
                looked()
            await replica.host.clock.sleep(RECONCILE_SECONDS)
    finally:
        await crew.stop()
