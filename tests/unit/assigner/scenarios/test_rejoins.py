"""A member whose older stream ends while it joins again: it is back, so nothing is taken from it."""

from collections.abc import Callable

from braid.api.assigner.v1 import join_pb2
from services.assigner.model.commands import JoinMember
from services.assigner.model.events import MemberGone
from tests.support.virtual_time import run_virtual
from tests.unit.assigner.mesh import Mesh, Wire, granted


async def rejoin(mesh: Mesh, during: Callable[[], None]) -> None:
    """A member joins again on a second stream, while the store is slow; something happens during the join."""
    old, new = Wire(mesh, "old"), Wire(mesh, "new")
    welcome = await old.hello()
    held = [join_pb2.HeldLease(lease=name, epoch=epoch) for name, epoch in granted(await old.next("delta"))]
    leader = await mesh.leader()
    mesh.stores[leader.instance].latency = lambda operation: 0.2 if operation == "append" else 0.0
    execute = leader.aggregates.execute

    async def watched(kind: object, id: str, command: object, **context: str) -> object:
        if isinstance(command, JoinMember):
            during()
        return await execute(kind, id, command, **context)  # type: ignore[arg-type]  # as it was called

    leader.aggregates.execute = watched  # type: ignore[method-assign,assignment]  # a point to strike at
    again = await new.hello(member_id=welcome.member_id, held=held, zone="b")
    assert list(again.kept) == held
    for _ in range(10):
        await new.beat()
        await new.next("heartbeat")
        await mesh.host.clock.sleep(0.2)
    assert not [event for event in await mesh.events() if isinstance(event, MemberGone)]
    state = mesh.state()
    assert {(name, lease.epoch) for name, lease in state.held_by(welcome.member_id).items()} == {
        (each.lease, each.epoch) for each in held
    }


def test_the_end_of_an_older_stream_during_a_join_takes_nothing() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        await rejoin(mesh, lambda: mesh.network.kill("old"))

    run_virtual(scenario())
