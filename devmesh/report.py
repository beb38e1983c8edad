"""A supervisor's reports about its processes: its documents, filled in, and the page at the end of a start."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Final

import psutil

from braid.host.endpoints import READY_FILE
from devmesh import roster
from devmesh.blueprint import CONSOLE, ENDPOINT_PORT
from devmesh.config import MeshLayout
from devmesh.credentials import MeshCredentials, paths_of
from devmesh.documents import BrokerAddress, ClusterAddress, MeshStatus, ProcessStatus, Ready, ServiceAddress
from devmesh.files import MeshFiles
from devmesh.processes.process import ServiceProcess
from devmesh.roster import Supervised
from devmesh.supervision import DesiredState
from devmesh.verbs import is_paused

FOUND_DIRECTORY: Final = READY_FILE.parent.name  # of a mesh that is found from the directory around it


def ready_document(held: Mapping[str, Supervised], layout: MeshLayout, files: MeshFiles) -> Ready:
    """The content of the ready file."""
    services: dict[str, ServiceAddress] = {}
    for name, each in held.items():
        process = each.process
        if isinstance(process, ServiceProcess):
            services[name] = ServiceAddress(process.pid, each.address, process.metrics)
    clusters = {name: _cluster_address(name, held, layout.zones[name]) for name in roster.clusters(held)}
    endpoint = held[layout.instances[0]].address
    console = f"http://{held[CONSOLE].address}" if CONSOLE in held else ""
    return Ready(endpoint, console, layout.store, str(files.directory), services, clusters, _tls(layout, files))


def _cluster_address(name: str, held: Mapping[str, Supervised], zone: str) -> ClusterAddress:
    brokers = {
        each.process.name: BrokerAddress(each.process.pid, each.address, each.zone)
        for each in roster.brokers_of(held, name)
    }
    pid = next((broker.pid for broker in brokers.values() if broker.pid is not None), None)
    return ClusterAddress(pid, ",".join(broker.address for broker in brokers.values()), zone, brokers)


def port_warning(asked: int, remembered: int | None, got: int) -> str:
    """Warns about the endpoint's port; empty where it is the usual one, or the one that was asked for.

    Whoever goes on with the usual port reaches somebody else's mesh.

    Args:
        asked: With --port; 0 for none.
        remembered: Of the last run in this directory; None for none.
        got: The port it has.
    """
    wanted = remembered or ENDPOINT_PORT
    endpoint = f"the endpoint of this mesh is 127.0.0.1:{got}"
    if asked:
        return ""
    if got != wanted:
        return f"port {wanted} is taken by another program: {endpoint}"
    return "" if got == ENDPOINT_PORT else f"{endpoint}, as in its last run, not 127.0.0.1:{ENDPOINT_PORT}"


def warnings_of(
    layout: MeshLayout, asked: int, remembered: Mapping[str, int], ports: Mapping[str, int]
) -> Sequence[str]:
    """Returns the warnings about a mesh that starts, a line each; none of one that is as they expect.

    Args:
        layout: What runs.
        asked: With --port; 0 for none.
        remembered: Ports of the last run in this directory.
        ports: Those it has.
    """
    endpoint = layout.instances[0]
    port = port_warning(asked, remembered.get(endpoint), ports[endpoint])
    return [each for each in (port, _safety_warning(layout)) if each]


def _safety_warning(layout: MeshLayout) -> str:
    if not layout.secure:
        return "plain text, as asked: every user and program of this machine may call everything, in any name"
    if layout.was_plain:
        return "this mesh spoke plain text before and is secure now: clients need a certificate, unless --insecure"
    return ""


def ready_page(ready: Ready, files: MeshFiles, warnings: Sequence[str] = (), *, foreground: bool = True) -> str:
    """Returns the page that people read when a mesh is ready.

    Args:
        ready: What it offers.
        files: Where it lies.
        warnings: Of `warnings_of`.
        foreground: Whether Ctrl-C ends it.
    """
    where = f" --dir {files.directory}"
    export = " ".join(["export", *(f"{name}={value}" for name, value in ready.environment.items())])
    if files.directory.name == FOUND_DIRECTORY:
        export = f"in {files.directory.parent}, commands and braid.connect() find it; elsewhere: {export}"
    clusters = (
        f"  {name:12}{broker.address:18}{'zone' if name in ready.clusters else 'rack'} {broker.rack}"
        for cluster in ready.clusters.values()
        for name, broker in cluster.brokers.items()
    )
    several = any(len(cluster.brokers) > 1 for cluster in ready.clusters.values())
    brokers = "clusters/NAME/BROKER/broker.log" if several else "clusters/NAME/broker.log"
    services = (f"  {name:12}{each.address:18}{each.metrics}" for name, each in ready.services.items())
    return "\n".join(
        [
            *(("", *(f"  WARNING     {warning}" for warning in warnings)) if warnings else ()),
            "",
            f"  endpoint    {ready.endpoint}",
            *clusters,
            *services,
            *(
                (f"  tls         mutual, by a CA of this mesh: braid certs show --dir {files.tls}",)
                if ready.tls
                else ()
            ),
            *((f"  console     {ready.console}; to sign in: braid open",) if ready.console else ()),
            f"  logs        {files.directory}/{brokers}, services/NAME/service.log",
            "",
            f"  use it:     {export}",
            f"  break it:   braid dev kill|pause NAME{where}",
            f"  end it:     {'Ctrl-C, or ' if foreground else ''}braid dev down{where}",
            "",
        ]
    )


def status_document(held: Mapping[str, Supervised], layout: MeshLayout, files: MeshFiles, ready: bool) -> MeshStatus:
    """How everything is now."""
    endpoint = held[layout.instances[0]].address if held else ""
    processes = [_process_status(name, each) for name, each in held.items()]
    total = _memory_bytes(os.getpid()) + sum(each.memory_bytes for each in processes)
    tls = _tls(layout, files)
    return MeshStatus(str(files.directory), os.getpid(), ready, total, processes, endpoint, tls)


def _tls(layout: MeshLayout, files: MeshFiles) -> dict[str, str] | None:
    """The files of the mesh's user; None where services speak plain text."""
    return paths_of(MeshCredentials(files.tls, layout.instances).user) if layout.secure else None


def state_of(held: Supervised) -> str:
    """`running`, `paused`, `down` (a verb's doing), `starting` or `crashed`."""
    pid = held.process.pid
    if pid is not None:
        return "paused" if is_paused(pid) else "running"
    if held.desired == DesiredState.REST:
        return "down"
    return "starting" if held.ended_at is None else "crashed"


def _process_status(name: str, held: Supervised) -> ProcessStatus:
    pid = held.process.pid
    return ProcessStatus(
        name=name,
        kind=held.kind.value,
        state=state_of(held),
        pid=pid,
        address=held.address,
        zone=held.zone,
        restarts=held.restarts,
        memory_bytes=0 if pid is None else _memory_bytes(pid),
        age_seconds=0.0 if pid is None else round(time.monotonic() - held.started_at, 1),
        log=str(held.process.log_path),
    )


def _memory_bytes(pid: int) -> int:
    """Resident memory; 0 when it has just ended."""
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
