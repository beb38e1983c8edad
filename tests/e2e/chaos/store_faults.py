"""Faults of an etcd of three members under a running mesh: its leader killed, its quorum lost and back."""

import asyncio
import random
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from braid.stores.etcd_wire import etcd_pb2 as wire
from devmesh.blueprint import StorePlace, store_url
from devmesh.files import MeshFiles
from testbed.etcd_process import STATUS, connected
from testbed.ground.field import Field, NotPlayedError, now_ms

_MEMBERS: Final = ("etcd-0", "etcd-1", "etcd-2")
SERVICES: Final = ("registry", "assigner")
QUORUM_LOST_SECONDS: Final = 40.0
LOOK_SECONDS: Final = 1.0


def store_url_of(field: Field) -> str:
    """The event store of a run's mesh."""
    files = MeshFiles(Path(field.mesh.ready.dir))
    ports = files.recall().ports
    members = [StorePlace(name, ports[name], 0, "") for name in _MEMBERS if name in ports]
    return store_url(members) if members else f"sqlite://{files.database}"


async def kill_leader(field: Field, chance: random.Random) -> None:
    """Kills etcd's leader; the other two elect one, and the mesh hardly notices."""
    name = await _leader(field)
    with field.marked(name, "etcd leader killed") as mark:
        await field.mesh.kill(name)
        field.kills += 1
        await field.progress()
        await decides(field)
        field.measured("etcd_leader_killed_to_decision_ms", now_ms() - mark.begin_ms)
        await field.mesh.start(name)
    await field.progress()


async def lose_quorum(field: Field, chance: random.Random) -> None:
    """Kills two of three members: producers go on without a decision; once they are back, decisions go on."""
    await _lose_quorum(field, chance, 0.0)


async def lose_quorum_for_long(field: Field, chance: random.Random) -> None:
    """The same, for so long that every session and every lease is over."""
    await _lose_quorum(field, chance, QUORUM_LOST_SECONDS)


async def _lose_quorum(field: Field, chance: random.Random, seconds: float) -> None:
    _addresses(field)
    lost = sorted(chance.sample(_MEMBERS, 2))
    with ExitStack() as marks:
        for name in lost:
            marks.enter_context(field.marked(name, "killed with etcd's quorum"))
        await asyncio.gather(*(field.mesh.kill(name) for name in lost))
        field.kills += len(lost)
        begun = time.monotonic()
        await field.progress(processed=0)  # members' leases may end: acknowledgements must not
        while time.monotonic() - begun < seconds:
            await field.progress(processed=0)
            await asyncio.sleep(LOOK_SECONDS)
        back = now_ms()
        await asyncio.gather(*(field.mesh.start(name) for name in lost))
    await decides(field)
    field.measured("etcd_quorum_back_to_decision_ms", now_ms() - back)
    await field.progress()


async def decides(field: Field) -> None:
    """Waits until both services that decide have a leader that answers."""
    for service in SERVICES:
        await field.leader(service)
    await field.channels()


async def _leader(field: Field) -> str:
    found: list[str] = []

    async def look() -> bool:
        for name, address in _addresses(field).items():
            async with connected([address]) as client:
                status = await client.call(STATUS, wire.StatusRequest())
            if status.leader == status.header.member_id:
                found[:] = [name]
        return bool(found)

    await field.asked(look, "a leader of etcd")
    return found[0]


def _addresses(field: Field) -> dict[str, str]:
    ports = MeshFiles(Path(field.mesh.ready.dir)).recall().ports
    found = {name: f"127.0.0.1:{ports[name]}" for name in _MEMBERS if name in ports}
    if not found:
        raise NotPlayedError("this mesh keeps its events in SQLite, not in an etcd of three members")
    return found
