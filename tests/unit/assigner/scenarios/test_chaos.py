"""Random faults at random times, seeded: whatever happens, invariants hold, and when it is over everything is owned."""

import random

import pytest

from services.assigner.reconciler.group_loop import GROUPS
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.groups import check_epochs, check_single_holder
from tests.unit.assigner.mesh import Mesh, Participant
from tests.unit.assigner.reconciler.terms import check_never_two

CALM_SECONDS = 12.0  # sessions, graces and leases run out within


class Chaos:
    """One random run of a mesh with faults."""

    def __init__(self, seed: int, *, exclusive: bool) -> None:
        self.dice = random.Random(seed)
        self.mesh = Mesh(seed)
        self.exclusive = exclusive
        self.members = 0
        self.channels = 1

    def join(self) -> None:
        """One member more, slow or quick to give back."""
        self.members += 1
        drain = self.dice.choice([0.0, 0.05, 2.0])
        name = f"web-{self.members}"
        Participant(self.mesh, name, lease_ms=600, exclusive=self.exclusive, drain_seconds=drain)

    def alive(self) -> list[Participant]:
        """Members that live."""
        return [each for each in self.mesh.participants if each.alive]

    async def fault(self) -> None:
        """Something happens."""
        mesh, dice = self.mesh, self.dice
        replica = dice.choice(["assigner-0", "assigner-1"])
        match dice.randrange(11):
            case 0 | 1:
                self.join()
            case 2:
                if len(self.alive()) > 1:
                    dice.choice(self.alive()).kill()
            case 3:
                mesh.network.cut(dice.choice(self.alive()).client_id, f"{replica}:1", one_way=dice.random() < 0.3)
            case 4:
                for member in self.alive():
                    for name in ("assigner-0", "assigner-1"):
                        mesh.network.heal(member.client_id, name)
            case 5:
                mesh.network.kill(dice.choice(self.alive()).client_id)  # connections break, the process lives
            case 6:
                mesh.processes[replica].resume()
                if mesh.processes[replica].alive:
                    mesh.processes[replica].kill()
                else:
                    await mesh.replica(replica)
            case 7:
                mesh.stores[replica].disconnect()
            case 8:
                mesh.processes[replica].pause()
            case 9:
                for name in ("assigner-0", "assigner-1"):
                    mesh.processes[name].resume()
            case 10:
                self.channels += 1
                mesh.channel(f"logs/live/{self.channels}", dice.randint(1, 5))

    async def heal(self) -> None:
        """Everything works again."""
        for name in ("assigner-0", "assigner-1"):
            self.mesh.stores[name].reconnect()
            self.mesh.processes[name].resume()
            if not self.mesh.processes[name].alive:
                await self.mesh.replica(name)
            for member in self.mesh.participants:
                self.mesh.network.heal(member.client_id, name)

    async def run(self) -> None:
        """Faults, then calm, then the checks."""
        await self.mesh.start(assigners=2)
        for _ in range(3):
            self.join()
        for _ in range(25):
            await self.mesh.host.clock.sleep(self.dice.choice([0.0, 0.01, 0.3, 1.0]))
            await self.fault()
        await self.heal()
        await self.mesh.host.clock.sleep(CALM_SECONDS)
        await self.mesh.settled(len(self.alive()))
        await self.check()

    async def check(self) -> None:
        """I5 (exclusive), I6, single holders, I9 over both replicas."""
        events = await self.mesh.events()
        check_epochs(events)
        check_single_holder(events)
        if self.exclusive:
            check_never_two(self.mesh.changes)
        await self.mesh.host.clock.sleep(0.5)
        hashes = {r.aggregates.state_hash(GROUPS, "indexer") for n, r in self.mesh.replicas.items() if "assigner" in n}
        assert len(hashes) == 1
        assert self.mesh.failures == []


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_random_faults(seed: int, exclusive: bool) -> None:
    async def scenario() -> None:
        await Chaos(seed, exclusive=exclusive).run()

    run_virtual(scenario())
