"""A flood of lane bulk: an application that sends nothing else, and begins when somebody wants it to."""

from collections.abc import Callable
from typing import Final

from braid.client.mesh import Mesh
from braid.client.producing.producer import Producer
from tests.simulation.applications import BULK_EVERY, ProducerApplication
from tests.simulation.journal import Journal
from tests.simulation.plan import Plan
from tests.support.virtual_time import VirtualProcess

LANE: Final = "bulk"
_LOOK_SECONDS: Final = 0.1


class Flood(ProducerApplication):
    """One life of its process."""

    def __init__(
        self,
        process: VirtualProcess,
        mesh: Mesh,
        journal: Journal,
        plan: Plan,
        quiet: Callable[[], bool],
        flooding: Callable[[], bool],
        producers: int,
    ) -> None:
        """Sends once `flooding`, until it is `quiet`, beside so many usual producers."""
        super().__init__(process, mesh, journal, plan, quiet)
        self._flooding = flooding
        self._usual_seconds = plan.send_interval_seconds * BULK_EVERY / producers
        self._more = plan.flood - 1

    async def _produce(self, producer: Producer) -> None:
        while not (self._flooding() or self._quiet()):
            await self._process.host.clock.sleep(_LOOK_SECONDS)
        await super()._produce(producer)

    def _interval_seconds(self) -> float:
        return self._usual_seconds / self._more

    def _lane(self, dice: int) -> str:
        return LANE
