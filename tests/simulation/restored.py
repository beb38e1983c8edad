"""A store that is put back to a backup under a mesh that runs, as the guide says: services stop, all others go on."""

from collections.abc import Mapping
from typing import Final

from braid.stores.memory_server import MemoryBackup
from services.registry.model.channels import ChannelRef
from testbed.checkers import facts
from tests.simulation.histories import ChannelSeen
from tests.simulation.world import SERVICES, World

RESTORES_MAX: Final = 2  # in a run: each costs it a quarter of its time


class StoreOperator:
    """Somebody who backs the event store up, and restores it. One backup at a time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._backup: tuple[MemoryBackup, Mapping[tuple[str, ChannelRef], ChannelSeen]] | None = None
        self._restores = 0

    def back_up(self) -> bool:
        """Copies the store while everything runs; False where a copy waits to be restored, or often enough it was."""
        if self._backup is not None or self._restores == RESTORES_MAX:
            return False
        self._backup = self._world.server.backup(), self._world.histories.backup()
        self._restores += 1
        self._world.journal.note(facts.StoreBackedUp())
        return True

    def stop_services(self) -> None:
        """All of them, and nothing starts them before the store is restored."""
        self._world.stopped = frozenset(SERVICES)
        for name in SERVICES:
            self._world.kill(name)

    def restore(self) -> None:
        """Puts the backup in the place of the store, and starts the services."""
        assert self._backup is not None, "it was taken before services were stopped"
        store, histories = self._backup
        self._backup = None
        self._world.server.restore(store)
        self._world.histories.restore(histories)
        self._world.journal.note(facts.StoreRestored())
        self._world.stopped = frozenset()
        for name in SERVICES:
            self._world.start_process(name)
