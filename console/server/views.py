"""The pages that there are: for each its parameters, parts and reads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from braid.kernel.errors import NotFound
from console.server.limits import OVERVIEW_EVENTS
from console.server.reads import assigner, dlq, events, lagmon, registry
from console.server.reads.names import names
from console.server.reads.overview import overview_summary
from console.server.reads.spark import spark_reads
from console.server.reads.view import Read, View, ViewKind

_TABLES_ARE_NOT: Final = frozenset({"summary", "group_counts", "stream", "group", "cluster", "letter"})
_SEARCH: Final = {"stream": True, "group": True, "cluster": True}


def _kind(
    about: str,
    name: str,
    reads: Callable[[], Sequence[Read]],
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
) -> ViewKind:
    def make() -> View:
        made = reads()
        return View(name, {part: part not in _TABLES_ARE_NOT for read in made for part in read.parts}, made)

    return ViewKind(name, about, required, optional, make)


def _overview() -> View:
    reads = (
        registry.clusters(),
        registry.streams(),
        assigner.group_counts(),
        lagmon.worst_lag(),
        lagmon.alerts(),
        events.newest_events(OVERVIEW_EVENTS, 2.0),
    )
    parts = {"summary": False, **{part: part not in _TABLES_ARE_NOT for read in reads for part in read.parts}}
    return View("overview", parts, reads, overview_summary)


VIEWS: Final[Mapping[str, ViewKind]] = {
    "overview": ViewKind("overview", "The mesh at a glance.", (), (), _overview),
    "streams": _kind("Every stream.", "streams", lambda: (registry.streams(), lagmon.lag_of_lanes())),
    "stream": _kind(
        "One stream: its channels, who reads it, how far behind.",
        "stream",
        lambda: (
            registry.stream(),
            lagmon.lag_of_stream(),
            assigner.groups("name"),
            registry.clusters(),
            lagmon.alerts(stream_param="name"),
        ),
        ("name",),
    ),
    "groups": _kind("Every group.", "groups", lambda: (assigner.groups(), lagmon.lag_of_lanes())),
    "group": _kind(
        "One group: its members, leases and lag.",
        "group",
        lambda: (
            assigner.group(),
            assigner.members(),
            assigner.leases(),
            lagmon.lag_of_group(),
            lagmon.lag_history(),
            lagmon.alerts(group_param="name"),
        ),
        ("name",),
    ),
    "dead-letters": _kind(
        "Dead letters, by error and one by one.",
        "dead-letters",
        lambda: (dlq.letters(),),
        optional=("stream", "filter"),
    ),
    "dead-letter": _kind("One dead letter in full.", "dead-letter", lambda: (dlq.letter(),), ("name",)),
    "replays": _kind("Replays of dead letters.", "replays", lambda: (dlq.replays(),), optional=("stream",)),
    "alerts": _kind("Alerts, and where they are sent.", "alerts", lambda: (lagmon.alerts(),), optional=("resolved",)),
    "clusters": _kind("Every cluster.", "clusters", lambda: (registry.clusters(), registry.channels())),
    "cluster": _kind(
        "One cluster: its health, and what it carries.",
        "cluster",
        lambda: (registry.cluster(), registry.channels("name"), lagmon.alerts(cluster_param="name")),
        ("name",),
    ),
    "events": _kind(
        "Every decision, and calls that were refused.",
        "events",
        lambda: (events.newest_events(seconds=2.0),),
        optional=events.PARAMETERS,
    ),
    "pathways": _kind(
        "Ways of records over streams.", "pathways", lambda: (lagmon.pathways(),), optional=("stream", "window_seconds")
    ),
    "access": _kind(
        "Who may do what, and what waits for a second person.",
        "access",
        lambda: (registry.grants(), registry.approvals(), registry.approval_policies()),
    ),
    "spark": _kind("Spark queries that hold leases.", "spark", spark_reads),
    "search": ViewKind("search", "Names of everything.", (), (), lambda: View("search", _SEARCH, names())),
}


def view_kind(name: str) -> ViewKind:
    """The kind of page of a name. Raises `NotFound` naming those there are."""
    found = VIEWS.get(name)
    if found is None:
        raise NotFound("there is no such page", field="view", remedy=f"one of {', '.join(VIEWS)}")
    return found
