"""Connects a drill's processes to the mesh like any client, except that they report nothing on its clusters."""

import asyncio
from collections.abc import Callable, Coroutine

from braid.client.mesh import Mesh, transport_to
from braid.drill.arguments import ProcessSpec
from braid.drill.gate import GatedLoop, parse_addresses
from braid.drill.orders import Refuse, read_orders
from braid.host.endpoints import resolve_here
from braid.host.system import system_host
from braid.kafka.cluster import AioKafka


class DrillMesh(Mesh):
    """A mesh whose consumers report nothing about clusters to the registry: they refuse the connections themselves."""

    def __init__(self, spec: ProcessSpec) -> None:
        """Connects to the mesh as the process that `spec` names."""
        found = resolve_here(spec.endpoint)
        super().__init__(system_host(), AioKafka(spec.name), transport_to(found), found.addresses, spec.name, "")
        self._cluster_watch = None


async def until_told_to_end(on_order: Callable[[Refuse], None] = lambda order: None) -> None:
    """Follows orders until they end: refuses and admits connections as they say."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, GatedLoop), "processes of a drill run on a gated loop"
    async for order in read_orders():
        loop.refuse(parse_addresses(order.addresses))
        on_order(order)


def run_gated(work: Coroutine[None, None, None]) -> None:
    """Runs a process's work on a loop that can refuse connections."""
    with asyncio.Runner(loop_factory=GatedLoop) as runner:
        runner.run(work)
