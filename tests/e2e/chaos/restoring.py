"""The event store is restored from a backup while applications go on: services stop, all others do not.

It is done as the guide says (`docs/guides/restoring-a-store.md`). Since the backup the stream has moved, so records lie
in a channel of which the backup knows nothing: it must be found, and consumed to its end.
"""

import asyncio
import random
import sys
from pathlib import Path
from typing import Final

from braid.api.mesh.v1.event_pb2 import EventRecord
from braid.api.registry.v1.stream_pb2 import ChannelState
from braid.host.system import system_host
from braid.kernel.errors import Refused, Unavailable
from braid.kernel.ports import EventStore, HistoryId
from braid.runtime.histories.event_metadata import metadata_message
from braid.runtime.opening import open_store
from testbed.ground.field import Field, now_ms
from testbed.ground.histories import KINDS, Histories
from testbed.ground.load import PRODUCERS
from tests.e2e.chaos.faults import arrived
from tests.e2e.chaos.store_faults import SERVICES, decides, store_url_of

COMMAND_SECONDS: Final = 60.0
_REFUSED: Final = "services use the store"
_FOUND: Final = (ChannelState.CHANNEL_STATE_DRAINING, ChannelState.CHANNEL_STATE_DRAINED)


async def restore(field: Field, chance: random.Random) -> None:
    """Backs the store up, moves the stream, and puts the backup in the store's place."""
    await field.healthy()
    source = field.carrier()
    target, backup = field.other(source, chance), _new_file(field)
    with field.marked(target, f"takes the stream from {source} after a backup", hit=False) as mark:
        await _command("backup", str(backup), "--store", store_url_of(field))
        backed_up = now_ms()
        await field.move(target)
        written = await arrived(field, source, mark.begin_ms)
        await field.progress()
    with field.marked("store", f"restored, a move to {target} is forgotten") as mark:
        await _restored(field, backup, backed_up)
        await decides(field)
        field.measured("store_restored_to_decision_ms", now_ms() - mark.begin_ms)
        await field.asked(lambda: _found(field, written.cluster, written.topic), f"{written.topic} is found and drains")
        for name in PRODUCERS:
            await _goes_on(field, name, now_ms(), written.topic)
        await field.progress()
    await field.healthy()


async def _restored(field: Field, backup: Path, backed_up: int) -> None:
    for name in SERVICES:
        await field.histories.read(name, field.client.service(name))
    services = sorted(field.mesh.ready.services)
    await asyncio.gather(*(field.mesh.stop(name) for name in services))
    await field.progress(processed=0)  # members' leases end: acknowledgements must not
    url = store_url_of(field)
    await read_store(field.histories, url)
    await field.asked(lambda: _put_back(backup, url), "the store is restored")
    restored = now_ms()
    field.histories.restored(backed_up, restored, await sequences(url))
    await asyncio.gather(*(field.mesh.start(name) for name in services))


async def _put_back(backup: Path, url: str) -> bool:
    """Restores, once sessions of stopped services are over. Raises `Refused` before."""
    await _command("restore", str(backup), "--store", url, "--yes")
    return True


async def _found(field: Field, cluster: str, topic: str) -> bool:
    """Whether the mesh knows a channel that was written to after the backup, and that it takes no more records."""
    return any(
        (each.cluster, each.topic) == (cluster, topic) and each.state in _FOUND for each in await field.channels()
    )


async def _goes_on(field: Field, producer: str, since_ms: int, former: str) -> None:
    """Waits until a producer is acknowledged elsewhere than where it wrote before services stopped.

    The channels that the backup calls active may be sealed yet: who is refused there tries again.
    """
    await field.first(
        "acked",
        since_ms,
        lambda line: line.process == producer and ".live." in line.topic and line.topic != former,
        f"{producer} is acknowledged off {former}",
    )


async def read_store(histories: Histories, url: str) -> None:
    """Reads the events that services appended after the last `ListEvents`, before they stopped."""
    store = open_store(url, system_host())
    try:
        for history in await _all(store):
            loaded, codec = await store.load(history), KINDS[history.service, history.kind].erased().codec
            for number, data in enumerate(loaded.events):
                _, context = codec.decode(data)
                record = EventRecord(
                    history=str(history),
                    sequence=loaded.first + number,
                    metadata=metadata_message(context),
                    data=data,
                )
                histories.keep(record, now_ms() - 60_000, now_ms())
    finally:
        await store.close()


async def sequences(url: str) -> dict[str, int]:
    """By history, the sequence of its last event."""
    store = open_store(url, system_host())
    try:
        return {str(history): (await store.load(history)).sequence for history in await _all(store)}
    finally:
        await store.close()


async def _all(store: EventStore) -> list[HistoryId]:
    found = [history for service in SERVICES for history in (await store.histories(service))[0]]
    return [history for history in found if (history.service, history.kind) in KINDS]


def _new_file(field: Field) -> Path:
    directory = Path(field.mesh.ready.dir)
    return directory / f"backup-{len(field.histories.restores)}"


async def _command(*words: str) -> None:
    """Runs `braid store`, as an operator does. Raises `Refused` while services use the store, else `Unavailable`."""
    braid = Path(sys.executable).with_name("braid")
    made = await asyncio.create_subprocess_exec(
        braid, "store", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    async with asyncio.timeout(COMMAND_SECONDS):
        said, _ = await made.communicate()
    if made.returncode:
        text = said.decode("utf-8", "replace").strip()
        raise Refused(text) if _REFUSED in text else Unavailable(text)
