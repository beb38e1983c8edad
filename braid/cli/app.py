"""The file of each verb, the first page of help, and how a run ends.

A family of verbs is a module with `register(app)`, which adds its commands. Only the family of the typed verb is
loaded. No verb is defined in this file.
"""

import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, cast

from braid.cli.core.tracing import COMMAND
from braid.cli.core.typed import typed_apart
from braid.cli.errors import EXIT_USAGE, error_text, exit_code, nearest
from braid.kernel.errors import BraidError, Invalid

if TYPE_CHECKING:
    import typer


class Verb(NamedTuple):
    """A verb on the first page of help."""

    module: str
    summary: str


class Family(Protocol):
    """A module that defines verbs."""

    def register(self, app: "typer.Typer") -> None:
        """Adds the family's commands to the application."""


VERBS: Final[Mapping[str, Verb]] = {
    "dev": Verb("braid.cli.dev", "Run a whole mesh on this machine, and break parts of it"),
    "get": Verb("braid.cli.resources.verbs", "List streams, clusters, groups, leases, lag, dead letters, replays, …"),
    "describe": Verb("braid.cli.resources.verbs", "Show one thing in full, with what belongs to it"),
    "create": Verb("braid.cli.resources.creating", "Create a stream, or register a cluster"),
    "delete": Verb("braid.cli.resources.verbs", "Delete a stream, a cluster or a group"),
    "apply": Verb("braid.cli.manifests.verbs", "Create or change what manifests declare"),
    "diff": Verb("braid.cli.manifests.verbs", "Show what `apply` would change"),
    "produce": Verb("braid.cli.traffic.verbs", "Send lines from stdin to a stream"),
    "consume": Verb("braid.cli.traffic.verbs", "Print a stream's records"),
    "move": Verb("braid.cli.moves.verbs", "Move a stream's traffic to another cluster"),
    "cordon": Verb("braid.cli.moves.verbs", "Keep new traffic off a cluster"),
    "uncordon": Verb("braid.cli.moves.verbs", "Let a cluster take new traffic again"),
    "decommission": Verb("braid.cli.moves.verbs", "Empty a cluster, some streams at a time"),
    "close": Verb("braid.cli.moves.close", "End a drain that cannot end; name the records to give up"),
    "release": Verb("braid.cli.moves.close", "Let an ordered stream continue before older channels are drained"),
    "why": Verb("braid.cli.history.why", "Explain why a member holds a lease"),
    "preview": Verb("braid.cli.groups.preview", "Show which leases or streams would move, and why"),
    "drain": Verb("braid.cli.groups.verbs", "Empty a member of a group"),
    "undrain": Verb("braid.cli.groups.verbs", "Let a drained member have leases again"),
    "pin": Verb("braid.cli.groups.verbs", "Give a lease to a member for good"),
    "unpin": Verb("braid.cli.groups.verbs", "Let the assigner place a pinned lease again"),
    "ban": Verb("braid.cli.groups.verbs", "Stop a member from receiving a lane, lease or cluster"),
    "unban": Verb("braid.cli.groups.verbs", "Lift a ban"),
    "split": Verb("braid.cli.groups.split", "Process new records at once, and the backlog beside them"),
    "resume": Verb("braid.cli.groups.resume", "Resume a lane that a group's members have stopped"),
    "freeze": Verb("braid.cli.groups.verbs", "Stop all moves of a group"),
    "unfreeze": Verb("braid.cli.groups.verbs", "Let a group move leases again"),
    "set": Verb("braid.cli.groups.verbs", "Set a member's capacity, or how a group uses zones"),
    "events": Verb("braid.cli.history.verbs", "Show what the mesh decided, and why"),
    "doctor": Verb("braid.cli.doctor.verbs", "Check the mesh, and say what to do"),
    "reset": Verb("braid.cli.groups.reset", "Move a group's progress to a time, an offset, or an end of the log"),
    "dlq": Verb("braid.cli.dlq.verbs", "Replay dead letters; pause, resume or cancel a replay"),
    "grant": Verb("braid.cli.access.verbs", "Give a principal a role"),
    "revoke": Verb("braid.cli.access.verbs", "Take a role back"),
    "approve": Verb("braid.cli.access.verbs", "Approve or refuse another person's request"),
    "alerts": Verb("braid.cli.resources.alerts.exporting", "Write the rules of alerts as files for Prometheus"),
    "silence": Verb("braid.cli.resources.alerts.verbs", "Silence an alert for a time"),
    "can-i": Verb("braid.cli.access.verbs", "Tell whether something is allowed, and why"),
    "drill": Verb("braid.cli.drill.verbs", "Rehearse a failure on this mesh, and print a verdict"),
    "acls": Verb("braid.cli.acls.verbs", "Print the Kafka ACLs that a role needs, or give them"),
    "archive": Verb("braid.cli.doctor.archive", "Check the archived histories"),
    "certs": Verb("braid.cli.certs.verbs", "Make and renew the mesh's certificates"),
    "store": Verb("braid.cli.store.verbs", "Back up the event store, and restore it"),
    "open": Verb("braid.cli.resources.opening", "Print a link to the console, or open it in a browser"),
    "completion": Verb("braid.cli.completion", "Print a completion script for bash, zsh or fish"),
}

_EXAMPLES: Final = (
    "braid dev --clusters east,west --detach        a whole mesh on this machine",
    "braid create stream logs --lane live=4 --lane bulk=4",
    "braid produce logs < lines.txt                 every line a record",
    "braid consume logs --from earliest --max 2",
    "braid move stream logs --to west               under load, without loss",
    "braid dev kill east                            break a part of it",
    "braid get lag -w                               how far groups are behind, as it changes",
    "braid doctor                                   what is wrong, and what to do",
)
# Flags that name the mesh may stand before the verb, too.
_GLOBAL_FLAGS: Final = ("--endpoint", "--context")


def run(arguments: Sequence[str]) -> int:
    """Runs one command line.

    Args:
        arguments: The arguments, without the program's name.

    Returns:
        0 done; 1 `diff` found differences, a drill failed or `can-i` says no; 2 wrong usage; 3 not reachable; 4 refused
        by the mesh.
    """
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(overview())
        return 0 if arguments else EXIT_USAGE
    if arguments[0] == "--version":
        print(f"braid {importlib.metadata.version('braid-streams')}")
        return 0
    moved = verb_first(arguments)
    if not moved:
        return _fail(Invalid("no command follows", remedy="`braid --help` lists them"))
    if moved[0] not in VERBS:
        return _fail(_unknown(moved[0]))
    return _run_verb(moved)


def overview() -> str:
    """The first page of help: examples, then every verb."""
    width = max(map(len, VERBS)) + 2
    verbs = [f"  {name:{width}}{verb.summary}" for name, verb in VERBS.items()]
    examples = [f"  {example}" for example in _EXAMPLES]
    return "\n".join(
        [
            "Usage: braid COMMAND [OPTIONS]",
            "",
            *examples,
            "",
            "Commands:",
            *verbs,
            "",
            "`braid COMMAND --help` says more.",
        ]
    )


def application(verbs: Sequence[str]) -> "typer.Typer":
    """The typer application with the families of these verbs loaded."""
    import typer

    app = typer.Typer(name="braid", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(_root)  # without it typer takes a single command for the whole application
    for module in dict.fromkeys(VERBS[verb].module for verb in verbs):
        cast(Family, importlib.import_module(module)).register(app)
    return app


def verb_first(arguments: Sequence[str]) -> list[str]:
    """The arguments, with flags before the verb moved behind it."""
    flags: list[str] = []
    rest = list(arguments)
    while rest and rest[0].partition("=")[0] in _GLOBAL_FLAGS:
        taken = 1 if "=" in rest[0] else 2
        flags += rest[:taken]
        rest = rest[taken:]
    return [*rest, *flags] if rest else []


def _run_verb(arguments: Sequence[str]) -> int:
    try:
        typed = typed_apart(arguments)
        COMMAND.set(f"braid {typed[0]}")
        _command(typed[0])(args=typed, prog_name="braid")
    except BraidError as error:
        return _fail(error)
    except OSError as error:
        if error.filename is None:  # of no file that was named
            raise
        remedy = "check the path, who owns it, and its disk"
        return _fail(Invalid(f"{error.filename}: {error.strerror}", remedy=remedy))
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


@cache  # typer takes tens of milliseconds, and a process may run many command lines
def _command(verb: str) -> Callable[..., object]:
    """The command line with the family of this verb loaded."""
    from typer.main import get_command

    return get_command(application([verb]))


def _root() -> None:
    """A control layer over many Kafka clusters."""


def _unknown(verb: str) -> Invalid:
    close = nearest(verb, VERBS)
    remedy = f"did you mean `braid {close}`?" if close else "`braid --help` lists them"
    return Invalid(f"there is no command {verb!r}", remedy=remedy)


def _fail(error: BraidError) -> int:
    print(error_text(error), file=sys.stderr)
    return exit_code(error)
