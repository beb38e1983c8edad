"""A real consumer process that logs all events of its leases and handlers.

`python -m testbed.members.telling_member SEEDS STREAM NAME LOG LEASE_SECONDS OWNERSHIPS`: it is a member of a group
over the stream for each kind of ownership, in one process. A line of LOG is a `MemberEvent`: leases that came and went,
handlers that began and ended, heartbeats that were acknowledged, on the wall clock of the machine.
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Self
from unittest.mock import patch

import braid
from braid.client.membership.held_leases import HeldLeases

OWNERSHIPS: Final = ("at_least_once", "exclusive")
HANDLER_SECONDS: Final = 0.005


class MemberEvent(NamedTuple):
    """One line of the log.

    Attributes:
        ms: The time in milliseconds.
        what: `granted`, `dropped`, `began`, `ended` or `acknowledged`.
        group: The member's group.
        subject: The lease, or the record's topic and partition (`began`).
        number: The lease's epoch, or the handler's number.
        member: The member's id (`granted`).
        offset: The record's offset (`began`).
    """

    ms: float
    what: str
    group: str
    subject: str = ""
    number: int = 0
    member: str = ""
    offset: int = -1


Tell = Callable[..., None]
_handlers = itertools.count()  # of both groups


def group_of(stream: str, ownership: str) -> str:
    """The name of the stream's group with this ownership."""
    return stream if ownership == OWNERSHIPS[0] else f"{stream}-alone"


class Membership:
    """One group's member within the process."""

    def __init__(self, mesh: braid.Mesh, stream: str, ownership: str, lease_seconds: float, tell: Tell) -> None:
        self._group = group_of(stream, ownership)
        self._tell = tell
        self._epochs: dict[str, int] = {}
        self._consumer = mesh.consumer(
            [stream],
            group=self._group,
            ownership=ownership,
            lease_seconds=lease_seconds,
            on_assigned=self._granted,
            on_revoked=self._dropped,
        )

    async def run(self) -> None:
        """Consumes until the process is killed."""
        async with self._consumer:
            await self._consumer.run(self._handle)

    def _granted(self, leases: Sequence[str]) -> None:
        for lease in self._consumer.leases():
            if lease.name in leases:
                self._epochs[lease.name] = lease.epoch
                self._tell("granted", self._group, lease.name, lease.epoch, self._consumer.member_id)

    def _dropped(self, leases: Sequence[str]) -> None:
        for lease in leases:
            self._tell("dropped", self._group, lease, self._epochs.pop(lease, 0))

    async def _handle(self, record: braid.Record) -> None:
        number = next(_handlers)
        self._tell("began", self._group, f"{record.topic}/{record.partition}", number, "", record.offset)
        try:
            await asyncio.sleep(HANDLER_SECONDS)
        finally:
            self._tell("ended", self._group, "", number)


async def main(seeds: str, stream: str, name: str, lease_seconds: float, ownerships: Sequence[str], tell: Tell) -> None:
    """Runs the members until the process is killed."""
    async with braid.connect(seeds, client_id=name) as mesh, asyncio.TaskGroup() as tasks:
        for ownership in ownerships:
            tasks.create_task(Membership(mesh, stream, ownership, lease_seconds, tell).run())


def telling(path: Path) -> Tell:
    """A function that writes lines to a log."""
    file = path.open("a", buffering=1)

    def tell(*told: object) -> None:
        file.write(json.dumps([time.time() * 1000, *told]) + "\n")

    return tell


def acknowledging(tell: Tell) -> Callable[[HeldLeases, float], None]:
    """`HeldLeases.extend`, which also logs each call: the assigner answered, so the leases last longer."""
    extend = HeldLeases.extend

    def extending(self: HeldLeases, sent_at: float) -> None:
        extend(self, sent_at)
        tell("acknowledged", self.group)

    return extending


class MemberLog:
    """The log of a process so far, read as it grows.

    Attributes:
        lines: All lines.
        held: The leases it reports to hold, with their epochs, by group.
        heard: When the assigner answered, by group.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self.lines: list[MemberEvent] = []
        self.held: dict[str, dict[str, int]] = {}
        self.heard: dict[str, list[float]] = {}

    def read(self) -> Self:
        """Reads new complete lines; the process may be writing another."""
        if not self._path.exists():
            return self
        with self._path.open("rb") as file:
            file.seek(self._position)
            whole = file.read().rpartition(b"\n")[0]
        self._position += len(whole) + bool(whole)
        for text in whole.splitlines():
            self._take(MemberEvent(*json.loads(text)))
        return self

    def _take(self, line: MemberEvent) -> None:
        self.lines.append(line)
        held = self.held.setdefault(line.group, {})
        if line.what == "granted":
            held[line.subject] = line.number
        elif line.what == "dropped" and held.get(line.subject) == line.number:
            del held[line.subject]
        elif line.what == "acknowledged":
            self.heard.setdefault(line.group, []).append(line.ms)


if __name__ == "__main__":
    seeds, stream, name, path, lease_seconds, ownerships = sys.argv[1:]
    told = telling(Path(path))
    with patch.object(HeldLeases, "extend", acknowledging(told)):
        asyncio.run(main(seeds, stream, name, float(lease_seconds), ownerships.split(","), told))
