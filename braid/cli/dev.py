"""`braid dev`: a whole mesh on this machine, and faults in it by name. The only file here that may reach `devmesh`."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

import braid._mesh
from braid.kernel.errors import Invalid

if TYPE_CHECKING:
    from devmesh.documents import MeshStatus
    from devmesh.mesh import DevMesh

braid._mesh.enable()

DEFAULT_DIRECTORY: Final = Path(".braid")
_MIB: Final = 1 << 20

_HELP: Final = """Run a whole mesh on this machine: Kafka clusters, store, services, console.

\b
  braid dev                                      in the foreground, until Ctrl-C
  braid dev --clusters east,west --detach        in the background
  braid dev --clusters east:3,west               east has three brokers: east/1, east/2, east/3
  braid dev kill east                            SIGKILL; `start east` brings it back
  braid dev kill east/2                          one broker alone; so do the other verbs
  braid dev --store etcd --store-members 3       histories in an etcd of three: etcd-0, etcd-1, etcd-2
  braid dev --insecure                           plain text, for scripts that have no certificate
  braid dev roll east                            restart one broker after the other
  braid dev pause registry-0                     SIGSTOP; `resume registry-0` ends it
  braid dev clock registry-1 +1h                 its wall clock is an hour ahead; `0` puts it right
  braid dev status                               what runs, where, how much memory
  braid dev down                                 end everything

The endpoint is 127.0.0.1:7401, or, where that port is taken, a free one, which is printed at the start.
The console is at 127.0.0.1:7480, likewise; `braid open` prints a link that signs you in.
Services and clients speak mutual TLS by a CA below --dir. Rights are enforced;
you are the mesh's admin.
Commands, braid.connect() and Spark find the certificate where they find the endpoint.
All state is under --dir; started again there, the mesh finds its data. Several run side by side in several directories.
A service that crashes is started again; what you kill or stop stays down until `start`, and so does a Kafka broker
that ends by itself. A cluster of three brokers or more keeps three copies of every partition, two of which acknowledge.
"""
_SECURE: Final = (
    "Mutual TLS, and rights enforced. With --insecure, for this start alone, plain text: every program that reaches a "
    "port may call everything, and `braid doctor` warns of it."
)
_VERBS: Final = {
    "kill": "End a cluster, broker or service at once (SIGKILL).",
    "stop": "End a cluster, broker or service in order (SIGTERM).",
    "start": "Start what was killed, stopped or has crashed; returns when it serves.",
    "pause": "Freeze a cluster, broker or service (SIGSTOP): connections stay open, nothing answers.",
    "resume": "Let a frozen one go on (SIGCONT).",
    "roll": "Restart a cluster's brokers in order, one after the other; returns when all copies are in sync.",
}

_CLOCK: Final = """Set the wall clock of a service's replica off from the machine's.

\b
  braid dev clock registry-1 +1h
  braid dev clock registry-1 -8d
  braid dev clock registry-1 0                   as the machine has it
"""

_Clusters = Annotated[
    str,
    typer.Option(
        metavar="NAME[:BROKERS],…", show_default="east,west", help="Kafka clusters, in zones a, b, … (east:3,west)."
    ),
]
_Brokers = Annotated[
    int, typer.Option(metavar="N", show_default="1", help="Brokers of each cluster without a number in --clusters.")
]
_Store = Annotated[str, typer.Option(metavar="sqlite|etcd", show_default="sqlite", help="Where histories are kept.")]
_StoreMembers = Annotated[
    int,
    typer.Option(metavar="1|3", show_default="1", help="Number of etcd members; three are etcd-0, etcd-1 and etcd-2."),
]
_Secure = Annotated[bool | None, typer.Option("--secure/--insecure", show_default="--secure", help=_SECURE)]
_Port = Annotated[int, typer.Option(metavar="PORT", show_default="7401, or a free one", help="Of the endpoint.")]
_Console = Annotated[
    int, typer.Option(metavar="PORT", show_default="7480, or a free one", help="Of the console, for browsers.")
]
_ReadyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file to write once everything answers; removed at the end.")
]
_Detach = Annotated[bool, typer.Option("--detach", help="Return once the mesh is ready; `braid dev down` ends it.")]
_Dir = Annotated[
    Path | None,
    typer.Option(
        "--dir", metavar="DIR", show_default=str(DEFAULT_DIRECTORY), help="Directory with the state of the mesh."
    ),
]
_Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="A cluster (east), a broker (east/2), a service (registry-0) or a member of etcd (etcd-1)."
    ),
]
_Output = Annotated[str, typer.Option("-o", "--output", metavar="table|json", help="Output format.")]


def register(app: typer.Typer) -> None:
    """Adds `dev` and its verbs."""
    dev = typer.Typer(rich_markup_mode=None)
    dev.callback(invoke_without_command=True, help=_HELP)(_dev)
    for verb, summary in _VERBS.items():
        dev.command(verb, help=summary)(_fault(verb))
    dev.command("clock", help=_CLOCK, context_settings={"ignore_unknown_options": True})(_clock)
    dev.command("status", help="Show what runs, where, and how much memory it uses.")(_status)
    dev.command("down", help="End the mesh; returns when all its processes have ended.")(_down)
    app.add_typer(dev, name="dev")


def _dev(
    context: typer.Context,
    clusters: _Clusters = "",
    brokers: _Brokers = 0,
    store: _Store = "",
    store_members: _StoreMembers = 0,
    registries: Annotated[int, typer.Option(metavar="N", help="Replicas of the registry.")] = 2,
    assigners: Annotated[int, typer.Option(metavar="N", help="Replicas of the assigner.")] = 2,
    lagmons: Annotated[int | None, typer.Option(metavar="N", help="Replicas of lagmon; 0 for none.")] = None,
    dlqs: Annotated[int | None, typer.Option(metavar="N", help="Replicas of dlq; 0 for none.")] = None,
    secure: _Secure = None,
    directory: _Dir = None,
    port: _Port = 0,
    console: _Console = 0,
    no_console: Annotated[bool, typer.Option("--no-console", help="Start no console.")] = False,
    ready_file: _ReadyFile = None,
    detach: _Detach = False,
) -> None:
    context.obj = directory
    if context.invoked_subcommand is not None:
        return
    from devmesh.config import DERIVED_REPLICAS, MeshConfig
    from devmesh.mesh import start_detached
    from devmesh.supervisor import supervise

    names = tuple(name.strip() for name in clusters.split(",")) if clusters else ()
    config = MeshConfig(
        directory or DEFAULT_DIRECTORY,
        names,
        store,
        registries,
        assigners,
        port,
        ready_file and ready_file.absolute(),
        lagmons=DERIVED_REPLICAS if lagmons is None else lagmons,
        dlqs=DERIVED_REPLICAS if dlqs is None else dlqs,
        brokers=brokers,
        store_members=store_members,
        secure=secure,
        console=None if no_console else console,
    )
    if detach:
        typer.echo(asyncio.run(start_detached(config, typer.echo)))
    else:
        supervise(config)


def _fault(verb: str) -> Callable[..., None]:
    def run(context: typer.Context, name: _Name, directory: _Dir = None) -> None:
        typer.echo(asyncio.run(_mesh(context, directory).verb(verb, name)))

    return run


def _clock(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="A service (registry-0).")],
    offset: Annotated[str, typer.Argument(metavar="OFFSET", help="+1h, -8d, +90s, -5m; 0 ends it.")],
    directory: _Dir = None,
) -> None:
    typer.echo(asyncio.run(_mesh(context, directory).set_clock(name, offset)))


def _status(context: typer.Context, directory: _Dir = None, output: _Output = "table") -> None:
    if output not in ("table", "json"):
        raise Invalid(f"{output!r} is neither table nor json", field="--output")
    status = asyncio.run(_mesh(context, directory).status())
    typer.echo(status.to_json().rstrip() if output == "json" else status_table(status))


def _down(context: typer.Context, directory: _Dir = None) -> None:
    typer.echo(asyncio.run(_mesh(context, directory).down()))


def _mesh(context: typer.Context, directory: Path | None) -> "DevMesh":
    """The mesh that runs in the directory named by the verb, by `braid dev`, or by default."""
    from devmesh.mesh import DevMesh

    return DevMesh(directory or context.obj or DEFAULT_DIRECTORY)


def status_table(status: "MeshStatus") -> str:
    """The status as people read it, at most 80 columns where names are short."""
    rows = [("NAME", "STATE", "PID", "ADDRESS", "ZONE", "RESTARTS", "MEMORY", "AGE")]
    rows += [
        (
            each.name,
            each.state,
            str(each.pid or "-"),
            each.address,
            each.zone or "-",
            str(each.restarts),
            f"{each.memory_bytes / _MIB:.0f} MiB",
            f"{each.age_seconds:.0f}s" if each.pid else "-",
        )
        for each in status.processes
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    readiness = "ready" if status.ready else "starting"
    memory = f"{status.memory_bytes / _MIB:.0f} MiB in all"
    total = f"{status.dir}: {readiness}, endpoint {status.endpoint or '-'}, supervisor {status.pid}, {memory}"
    return "\n".join([*lines, total])
