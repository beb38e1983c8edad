"""Reports to the registry, for a drill's stream alone, that a broker cannot be reached, while it is refused."""

import asyncio
import contextlib

from braid.api.registry.v1.route_pb2 import ProducerHello
from braid.client.producing import route_session
from braid.client.producing.route_session import RouteSession
from braid.client.producing.routes import RouteTable
from braid.drill.arguments import ProcessSpec
from braid.drill.clients import DrillMesh
from braid.drill.gate import parse_addresses
from braid.drill.orders import Refuse
from braid.host.system import system_host
from braid.kernel.capabilities import KNOWS_DENIALS
from braid.kernel.limits.registry.drill import DRILL_BROKER_LOOK_SECONDS


class BrokerWatch:
    """A producer of the drill's stream that writes nothing. It probes a broker as the registry probes all.

    Other producers only report a cluster that acknowledges nothing; the registry detects a single broker's death by its
    own probes.
    """

    def __init__(self, mesh: DrillMesh, spec: ProcessSpec) -> None:
        host = system_host()
        hello = ProducerHello(
            protocol_version=route_session.PROTOCOL_VERSION,
            capabilities=[KNOWS_DENIALS],
            producer_id=host.ids.ulid(),
            client_id=spec.name,
            stream=spec.stream,
            host=host.name,
        )
        self._routes = RouteSession(host, mesh.service("registry"), hello, self._on_route, lambda error: None)
        self._order = Refuse(())

    def obey(self, order: Refuse) -> None:
        """Probes the broker that an order names from now on; none if it names none."""
        self._order = order

    async def run(self) -> None:
        """Watches until cancelled."""
        await asyncio.gather(self._routes.run(), self._look())

    def _on_route(self, route: RouteTable) -> None:
        self._routes.acknowledge(route.revision)

    async def _look(self) -> None:
        while True:
            order = self._order
            if order.broker_address and not await _answers(order.broker_address):
                self._routes.report(order.cluster, "", 1, f"broker {order.broker_address} refuses connections")
            await asyncio.sleep(DRILL_BROKER_LOOK_SECONDS)


async def _answers(address: str) -> bool:
    (host, port), *_ = parse_addresses([address])
    try:
        _, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
