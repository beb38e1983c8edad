"""The pages that there are: for each its parameters, parts and reads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from braid.kernel.errors import NotFound
from console.server.limits import OVERVIEW_EVENTS, WORST_LAGS
from console.server.reads import all_groups, assigner, dlq, events, lagmon, lease, past, registry
from console.server.reads.names import names
from console.server.reads.overview import overview_summary
from console.server.reads.spark import spark_reads
from console.server.reads.view import Derive, Read, View, ViewKind

_TABLES_ARE_NOT: Final = frozenset(
    {"summary", "window", "group_counts", "stream", "group", "cluster", "letter", "explained", "progress", "lease_lag"}
)
_DERIVED: Final = {"overview": {"summary": False}}  # parts that follow from others
_LAG_NOT_KEPT: Final = "the lag of single partitions is not kept as of a moment"
_SEARCH: Final = {"stream": True, "group": True, "cluster": True}


_Reads = Callable[[], Sequence[Read]]


def _kind(
    about: str,
    name: str,
    reads: _Reads,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    past_reads: _Reads | None = None,
    derived: Derive = lambda parts: {},
) -> ViewKind:
    """Makes a kind of page. Without reads of its past it says of its parts that they are not kept."""

    def view(reads: Sequence[Read]) -> View:
        parts = {part: part not in _TABLES_ARE_NOT for read in reads for part in read.parts}
        return View(name, {**_DERIVED.get(name, {}), **parts}, reads, derived)

    def past_view() -> View:
        return view(past_reads() if past_reads is not None else [_not_kept(name, *read.parts) for read in reads()])

    return ViewKind(name, about, required, optional, lambda: view(reads()), past_view)


def _not_kept(what: str, *parts: str) -> Read:
    return past.not_kept(*parts, why=f"{what.replace('-', ' ')} are not kept as of a moment")


def _overview() -> Sequence[Read]:
    return (
        registry.clusters(),
        registry.streams(),
        all_groups.group_counts(),
        all_groups.worst_lag(),
        lagmon.alerts(),
        events.newest_events(OVERVIEW_EVENTS, 2.0),
    )


def _past_overview() -> Sequence[Read]:
    return (
        past.past_clusters(),
        past.past_streams(),
        past.past_groups(counted=True),
        past.past_lag(most=WORST_LAGS),
        _not_kept("alerts", "alerts", "outlets"),
        events.newest_events(OVERVIEW_EVENTS)._replace(once=True),
    )


def _past_group() -> Sequence[Read]:
    lag = past.not_kept("lag", why=_LAG_NOT_KEPT)
    return (past.past_group(), past.past_lag_of_group(), lag, _not_kept("alerts", "alerts"))


VIEWS: Final[Mapping[str, ViewKind]] = {
    "overview": _kind(
        "The mesh at a glance.", "overview", _overview, past_reads=_past_overview, derived=overview_summary
    ),
    "streams": _kind(
        "Every stream.",
        "streams",
        lambda: (registry.streams(), all_groups.worst_lag_of_streams()),
        past_reads=lambda: (past.past_streams(), past.past_lag()),
    ),
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
        past_reads=lambda: (
            past.past_stream(),
            past.past_lag("name"),
            past.past_groups_of_stream(),
            past.past_clusters(),
            _not_kept("alerts", "alerts"),
        ),
    ),
    "groups": _kind(
        "Groups: some hundred of all, from a row on in an order.",
        "groups",
        all_groups.windowed_groups,
        optional=all_groups.WINDOW,
        past_reads=lambda: (past.past_groups(), past.past_lag()),
    ),
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
        past_reads=_past_group,
    ),
    "lease": _kind(
        "One lease: why it is here, and its partition's lag and progress.",
        "lease",
        lease.lease_reads,
        ("lease",),
        ("group",),
        past_reads=lambda: (lease.past_why(), past.not_kept("lease_lag", "progress", why=_LAG_NOT_KEPT)),
    ),
    "dead-letters": _kind(
        "Dead letters, by error and one by one.",
        "dead-letters",
        lambda: (dlq.letters(),),
        optional=("stream", "filter"),
    ),
    "dead-letter": _kind("One dead letter in full.", "dead-letter", lambda: (dlq.letter(),), ("name",)),
    "replays": _kind("Replays of dead letters.", "replays", lambda: (dlq.replays(),), optional=("stream",)),
    "alerts": _kind(
        "Alerts, where they are sent, and what groups did about lag by themselves.",
        "alerts",
        lambda: (lagmon.alerts(), assigner.responses()),
        optional=("resolved",),
    ),
    "clusters": _kind(
        "Every cluster.", "clusters", lambda: (registry.clusters(),), past_reads=lambda: (past.past_clusters(),)
    ),
    "cluster": _kind(
        "One cluster: its health, and what it carries.",
        "cluster",
        lambda: (registry.cluster(), registry.channels("name"), lagmon.alerts(cluster_param="name")),
        ("name",),
        past_reads=lambda: (past.past_cluster(), _not_kept("alerts", "alerts")),
    ),
    "events": _kind(
        "Every decision, and calls that were refused.",
        "events",
        lambda: (events.newest_events(seconds=2.0),),
        optional=events.PARAMETERS,
        past_reads=lambda: (events.newest_events()._replace(once=True),),
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
