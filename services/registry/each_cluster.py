"""Runs one task for each registered cluster, while this replica leads."""

from collections.abc import Callable, Coroutine
from functools import partial

from braid.kernel.limits.registry.resources import RECONCILE_SECONDS
from braid.runtime.replica import Replica
from services.registry.histories import CLUSTERS
from services.registry.term_tasks import KeyedTasks


async def watch_each(
    replica: Replica, watch: Callable[[str], Coroutine[object, object, None]], looked: Callable[[], None] | None = None
) -> None:
    """Runs `watch` for every cluster, each in its own task, until cancelled.

    Args:
        replica: The leading replica.
        watch: Runs for one cluster; returns once it is deleted. It is started again if the cluster exists when it
            ended.
        looked: Called after each look at the list of clusters.
    """
    running = KeyedTasks(replica.host)
    try:
        while True:
            for name, cluster in replica.aggregates.states(CLUSTERS).items():
                if cluster.exists:
                    running.start(name, partial(watch, name))
            if looked is not None:
                looked()
            await replica.host.clock.sleep(RECONCILE_SECONDS)
    finally:
        await running.stop()
