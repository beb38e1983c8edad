"""A producer judges its registry by what it says: silence, a stranger on its port, a store restored from a backup."""

import asyncio

from braid.api.registry.v1 import route_pb2
from braid.kernel.errors import Unsupported
from tests.support.scripted_control import Control, until, virtual


async def with_two_channels() -> Control:
    """The route names a channel on east; there is another on west."""
    control = await Control().start()
    control.add_channel("logs/live/1", "east")
    control.add_channel("logs/live/2", "west")
    await control.move("logs/live/1")
    return control


@virtual
async def test_a_silent_registry_is_left_for_the_one_that_leads_now() -> None:
    control = await with_two_channels()
    async with control.client("web").mesh as mesh, mesh.producer("logs"):
        [watch] = control.watches
        await watch.send(route_pb2.WatchRoutesResponse(unchanged=route_pb2.RouteUnchanged(revision=1)))
        await asyncio.sleep(2.5)
        assert control.watches == [watch]
        await until(lambda: bool(control.watches) and control.watches != [watch], seconds=2.0)


@virtual
async def test_a_registry_that_never_gives_signs_of_life_may_be_silent() -> None:
    control = await with_two_channels()
    async with control.client("web").mesh as mesh, mesh.producer("logs"):
        [watch] = control.watches
        await asyncio.sleep(60.0)
        assert control.watches == [watch]


@virtual
async def test_a_restored_registrys_route_is_followed_and_acknowledged() -> None:
    control = await with_two_channels()
    await control.move("logs/live/2")
    await control.move("logs/live/2")
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        assert (await producer.send(b"x")).cluster == "west"
        control.network.kill("control")
        control.revision = 1  # the backup is older
        await control.move("logs/live/1", push=False)
        await control.start()
        await until(lambda: (producer.id, 2) in control.acknowledged)
        assert (await producer.send(b"y")).cluster == "east"
        await control.move("logs/live/2")
        await until(lambda: (producer.id, 3) in control.acknowledged[-1:])
        assert (await producer.send(b"z")).cluster == "west"


@virtual
async def test_a_stranger_on_the_registrys_port_is_no_refusal() -> None:
    control = await with_two_channels()
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        for refusal in (Unsupported("unknown service"), None):
            control.network.kill("control")
            control.refusal = refusal
            await control.start()
            await asyncio.sleep(3.0)
        await control.move("logs/live/2")
        assert (await producer.send(b"x")).cluster == "west"
