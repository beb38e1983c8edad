"""Answers of the console's server about the invented mesh: views with their parts, and single questions."""

from collections.abc import Callable, Mapping
from typing import Final

from tests.support.console import documents, happenings
from tests.support.console.actions import ACTIONS
from tests.support.console.documents import NOW_MS, Document

_UNREACHABLE: Final = {
    "status": 503,
    "reason": "UNAVAILABLE",
    "message": "No lagmon replica answers.",
    "field": "",
    "remedy": "braid dev status",
}
_STALE_MS: Final = 42_000


def _table(rows: list[Document], stale: bool = False) -> Document:
    as_of_ms = NOW_MS - (_STALE_MS if stale else 300)
    error = _UNREACHABLE if stale else None
    return {"kind": "table", "rows": rows, "as_of_ms": as_of_ms, "stale": stale, "error": error, "more": False}


def _value(value: object) -> Document:
    return {"kind": "value", "value": value, "as_of_ms": NOW_MS - 300, "stale": False, "error": None}


def _missing(kind: str, name: str) -> Document:
    error = {
        "status": 404,
        "reason": "NOT_FOUND",
        "message": f"There is no {kind} {name!r}.",
        "field": "name",
        "remedy": f"braid get {kind}s",
    }
    return _value(None) | {"error": error}


def _named(kind: str, rows: list[Document], name: str) -> Document:
    found = next((row for row in rows if row["name"] == name), None)
    return _missing(kind, name) if found is None else _value(found)


def _channels(cluster: str = "") -> list[Document]:
    channels = [each for stream in documents.streams() for each in stream["status"]["channels"]]
    return [each for each in channels if cluster in ("", each["cluster"])]


def _clusters() -> list[Document]:
    return [documents.cluster(*state) for state in documents.CLUSTER_STATES]


def _overview(_params: Mapping[str, str]) -> Document:
    counts = {"clusters": 4, "clusters_unwell": 2, "streams": 4, "streams_blocked": 1, "moves": 2, "alerts_firing": 2}
    summary = counts | {"groups": 5, "free_leases": 2, "worst_lag_seconds": 3_840.0, "lag_stale": 1}
    firing = [alert for alert in happenings.alerts() if alert["state"] == "firing"]
    return {
        "summary": _value(summary),
        "clusters": _table(_clusters()),
        "streams": _table(documents.streams()),
        "lag": _table(documents.lags()),
        "alerts": _table(firing),
        "events": _table(happenings.events(12)),
    }


def _stream(params: Mapping[str, str]) -> Document:
    name = params.get("name", "")
    lags = [
        documents.lag(
            each["group"],
            f"{each['stream']}/{each['lane']}/west/braid.{name}.{each['lane']}.7",
            each["lag_seconds"],
            each["lag_records"],
        )
        for each in documents.lags()
        if each["stream"] == name
    ]
    return {
        "stream": _named("stream", documents.streams(), name),
        "lag": _table(lags),
        "groups": _table(documents.groups()),
        "clusters": _table(_clusters()),
        "alerts": _table([alert for alert in happenings.alerts() if alert["stream"] == name]),
    }


def _group(params: Mapping[str, str]) -> Document:
    name = params.get("name", "")
    known = name == "indexer"
    return {
        "group": _named("group", documents.groups(), name),
        "members": _table(documents.members() if known else []),
        "leases": _table(documents.leases() if known else []),
        "lag": _table(documents.lease_lags() if known else [], stale=known),
        "history": _table(documents.history() if known else []),
        "alerts": _table([alert for alert in happenings.alerts() if alert["group"] == name]),
    }


def _cluster(params: Mapping[str, str]) -> Document:
    name = params.get("name", "")
    return {
        "cluster": _named("cluster", _clusters(), name),
        "channels": _table(_channels(name)),
        "alerts": _table([alert for alert in happenings.alerts() if alert["cluster"] == name]),
    }


def _letters(_params: Mapping[str, str]) -> Document:
    summary = {"total": 140, "total_incomplete": False, "catching_up": ["east"]}
    return {"letters": _table(happenings.letters()), "kinds": _table(happenings.kinds()), "summary": _value(summary)}


def _matching(params: Mapping[str, str]) -> list[Document]:
    """Returns the events that a filter asks for, as the server does."""
    since, until = int(params.get("since_ms") or 0), int(params.get("until_ms") or 1 << 52)
    return [
        each
        for each in happenings.events()
        if params.get("history", each["history"]) in ("", each["history"])
        and params.get("service", each["service"]) in ("", each["service"])
        and params.get("actor", each["actor"]) in ("", each["actor"])
        and since <= each["time_ms"] <= until
    ]


def _access(_params: Mapping[str, str]) -> Document:
    summary = {"enforced": True, "configured_admins": ["spiffe://braid.local/user/root"]}
    return {
        "grants": _table(happenings.grants()),
        "approvals": _table(happenings.approvals()),
        "policies": _table(happenings.policies()),
        "summary": _value(summary),
    }


def _reason(place: int, text: str, actor: str) -> Document:
    return {
        "time_ms": NOW_MS - 90_000 + place * 900,
        "actor": actor,
        "history": "assigner/group/indexer",
        "sequence": 300 + place,
        "type": "LeasesGranted",
        "text": text,
    }


def _why(params: Mapping[str, str]) -> Document:
    lease = next((each for each in documents.leases() if each["name"] == params.get("lease")), None)
    reasons = [
        _reason(0, "registry made channel logs/live/7 active: east is down", "registry-0"),
        _reason(1, "free: nobody had it before", "assigner-1"),
        _reason(2, f"granted to indexer-0, which bore the least load (0.78), {documents.HOSTILE}", "assigner-1"),
    ]
    progress = documents.progress() if lease else None
    place = ("cluster", "topic", "partition")
    lag = next((each for each in documents.lease_lags() if lease and all(each[it] == lease[it] for it in place)), None)
    return {"lease": lease, "reasons": reasons, "kept_from_sequence": 118, "progress": progress, "lag": lag}


def _lease(params: Mapping[str, str]) -> Document:
    found = _why(params)
    progress, lag = found.pop("progress"), found.pop("lag")
    return {"explained": _value(found), "progress": _value(progress), "lease_lag": _value(lag)}


VIEWS: Final[Mapping[str, Callable[[Mapping[str, str]], Document]]] = {
    "overview": _overview,
    "streams": lambda _params: {"streams": _table(documents.streams()), "lag": _table(documents.lags())},
    "stream": _stream,
    "groups": lambda _params: {"groups": _table(documents.groups()), "lag": _table(documents.lags(), stale=True)},
    "group": _group,
    "lease": _lease,
    "clusters": lambda _params: {"clusters": _table(_clusters())},
    "cluster": _cluster,
    "alerts": lambda _params: {
        "alerts": _table(happenings.alerts()),
        "outlets": _table(happenings.outlets()),
        "responses": _table(happenings.responses()),
    },
    "events": lambda params: {"events": _table(_matching(params)), "gaps": _table([])},
    "dead-letters": _letters,
    "dead-letter": lambda _params: {"letter": _value(happenings.letter_in_full())},
    "replays": lambda _params: {"replays": _table(happenings.replays())},
    "spark": lambda _params: {"jobs": _table(documents.spark_jobs()), "lag": _table(documents.lags())},
    "pathways": lambda _params: {
        "pathways": _table(happenings.pathways()),
        "summary": _value({"window_seconds": 60, "kept_since_ms": NOW_MS}),
    },
    "access": _access,
}


_PAST: Final = ("overview", "streams", "stream", "groups", "group", "lease", "clusters", "cluster", "events")
_NOT_KEPT: Final = {"group": {"lag"}, "streams": {"lag"}, "lease": {"lease_lag", "progress"}}


def snapshot(view: str, params: Mapping[str, str]) -> Document:
    """The parts of a page; as of a moment without what is not kept, as the server answers."""
    parts = VIEWS[view](params)
    if not params.get("at_ms"):
        return parts
    absent = {"alerts"} | _NOT_KEPT.get(view, set()) if view in _PAST else set(parts)
    hole = {
        "status": 404,
        "reason": "HISTORY_HOLE",
        "message": "alerts are not kept as of a moment",
        "field": "at_ms",
        "remedy": "its events tell what happened",
    }
    for name in absent & set(parts):
        nothing: Document = {"rows": []} if parts[name]["kind"] == "table" else {"value": None}
        parts[name] |= nothing | {"error": hole, "stale": False, "as_of_ms": NOW_MS}
    if view == "overview":
        parts["summary"]["value"] |= {"alerts_firing": None}
        gap = {"key": "registry/stream/audits", "history": "registry/stream/audits", "first": 1, "last": 512}
        parts["unknown_streams"] = _table([gap | {"reason": "a snapshot took their place, and no archive is set"}])
    for part in parts.values():
        part |= {"stale": False, "as_of_ms": NOW_MS}
    return parts


def _search(params: Mapping[str, str]) -> Document:
    sought = params.get("q", "").lower()
    every = (
        [("stream", each["name"]) for each in documents.streams()]
        + [("group", each["name"]) for each in documents.groups()]
        + [("cluster", each["name"]) for each in _clusters()]
    )
    names = [{"key": f"{kind}/{name}", "kind": kind, "name": name} for kind, name in every if sought in name.lower()]
    return {"names": names, "errors": []}


QUESTIONS: Final[Mapping[str, Callable[[Mapping[str, str]], Document]]] = {
    "why": _why,
    "search": _search,
    "can": lambda _params: {
        "allowed": False,
        "why": "No grant of yours allows it.",
        "missing": {"role": "operator", "resource": "stream/logs"},
    },
    "actions": lambda _params: {"actions": ACTIONS},
    "events": lambda params: {"events": _matching(params), "gaps": [], "next_page_token": "", "errors": []},
}
