"""Following the registry: a leader that is stopped but keeps its connections is noticed, and its successor followed."""

from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Participant


def test_a_frozen_registry_is_left_for_the_one_that_leads() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await mesh.replica("registry-1")
        member = Participant(mesh, "web-1")
        await mesh.settled(1)
        mesh.processes["registry-0"].pause()
        await mesh.until(mesh.replicas["registry-1"].leading)
        mesh.channel("logs/live/2")
        assert await mesh.until(lambda: len(member.holds) == 8) < 6.0
        mesh.processes["registry-0"].resume()

    run_virtual(scenario())


def test_signs_of_life_alone_change_nothing_and_keep_the_watch() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        Participant(mesh, "web-1")
        await mesh.settled(1)
        before, view = len(await mesh.events()), mesh.registry.watches
        await mesh.host.clock.sleep(60)
        assert (len(await mesh.events()), mesh.registry.watches) == (before, view)

    run_virtual(scenario())
