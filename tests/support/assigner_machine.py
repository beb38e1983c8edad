"""Real assigner and member processes over one SQLite file, with a registry that says what a test wants."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.host.tls.paths import tls_of_environment
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from testbed.patience import until

ROOT = Path(__file__).parents[2]


class Machine:
    """Processes over one store; ends what is left."""

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        """`environment` is that of services and members, beside what is said here; the client uses its TLS files."""
        self.directory = directory
        self.environment = dict(environment or {})
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.addresses: dict[str, str] = {}
        self.told = directory / "channels.json"
        self.told.write_text("[]")
        self.host = system_host()
        self.mesh: Directory | None = None

    def tell(self, *channels: tuple[str, int, str]) -> None:
        """Sets the registry's channels: (name, partitions, state) each."""
        keys = ("name", "partitions", "state")
        part = self.told.with_suffix(".part")
        part.write_text(json.dumps([dict(zip(keys, channel, strict=True)) for channel in channels]))
        part.replace(self.told)

    async def service(self, instance: str, module: str) -> None:
        """Starts a replica and waits until it serves."""
        ready = self.directory / f"{instance}.json"
        store = self.environment.get("BRAID_STORE", f"sqlite://{self.directory}/store.db")
        settings = {"STORE": store, "INSTANCE": instance, "READY_FILE": str(ready)}
        settings["TOLD_CHANNELS"] = str(self.told)
        await self._start(instance, {f"BRAID_{name}": value for name, value in settings.items()}, "-m", module)
        await self.until(ready.exists)
        self.addresses[instance] = json.loads(ready.read_text())["address"]

    async def member(self, client_id: str) -> None:
        """Starts a member of `assigner-1`'s mesh."""
        arguments = (self.addresses["assigner-1"], client_id, str(self.directory / f"{client_id}.log"))
        await self._start(client_id, {}, "-m", "tests.support.lease_member", *arguments)

    async def _start(self, name: str, variables: dict[str, str], *arguments: str) -> None:
        with (self.directory / f"{name}.err").open("w") as errors:
            self.processes[name] = await asyncio.create_subprocess_exec(
                sys.executable,
                *arguments,
                cwd=ROOT,
                env={**os.environ, **self.environment, **variables},
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
            )

    async def kill(self, name: str) -> float:
        """kill -9; returns when, on the boot clock."""
        process = self.processes.pop(name)
        at = time.clock_gettime(time.CLOCK_BOOTTIME)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        return at

    async def close(self) -> None:
        """Kills what still runs."""
        for name in list(self.processes):
            await self.kill(name)
        if self.mesh is not None:
            await self.mesh.close()

    async def until(self, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Waits until a condition holds."""

        def look() -> object:
            for name, process in self.processes.items():
                assert process.returncode is None, (self.directory / f"{name}.err").read_text()
            return condition()

        await until(look, self._holdings, seconds, poll=0.02)

    def _holdings(self) -> str:
        """The leases of every member, by its log."""
        return str({path.stem: sorted(self.held(path.stem)) for path in sorted(self.directory.glob("*.log"))})

    def client(self) -> ServiceClient:
        """A client of the assigners."""
        if self.mesh is None:
            tls = tls_of_environment(self.environment)
            transport = GrpcTransport(TlsFiles(tls) if tls else None)
            self.mesh = Directory(transport, self.host, [self.addresses["assigner-1"]])
        return ServiceClient(self.mesh, "assigner", self.host)

    def leader(self) -> str:
        """The assigner that leads, as the client knows."""
        assert self.mesh is not None
        address = self.mesh.leader("assigner")
        return next(name for name, known in self.addresses.items() if known == address and name in self.processes)

    def log(self, client_id: str) -> list[dict[str, object]]:
        """The messages that a member received."""
        path = self.directory / f"{client_id}.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def held(self, client_id: str) -> dict[str, int]:
        """The leases and epochs of a member, by its log."""
        held: dict[str, int] = {}
        for line in self.log(client_id):
            if line["what"] == "granted":
                held[str(line["lease"])] = int(str(line["epoch"]))
            else:
                held.pop(str(line["lease"]), None)
        return held

    def balanced(self, members: Sequence[str], partitions: int) -> bool:
        """Whether these members hold everything, each lease once, evenly."""
        held = [self.held(name) for name in members]
        leases = [lease for each in held for lease in each]
        counts = [len(each) for each in held]
        return len(leases) == len(set(leases)) == partitions and max(counts) - min(counts) <= 1
