"""Happenings on the invented mesh: alerts, events, dead letters, replays, pathways, grants."""

from tests.support.console.documents import HOSTILE, NOW_MS, REVERSED, Document

_SECOND = 1_000
_TRACEBACK = """Traceback (most recent call last):
  File "/app/handler.py", line 41, in handle
    tenant = tenants[record.key]
myapp.errors.UnknownTenant: invoice"""


def _alert(name: str, severity: str, state: str, summary: str, ago_s: int, **more: object) -> Document:
    parts = name.split("/")
    about = {"stream": "", "cluster": "", "lane": "", "group": ""}
    if parts[0] == "stream":
        about |= {"stream": parts[1], "lane": parts[3], "group": parts[4]}
    else:
        about |= {"cluster": parts[1]}
    over = state == "resolved"
    return (
        {
            "key": name,
            "name": name,
            "rule": parts[2],
            "severity": severity,
            "state": state,
            "summary": summary,
            "remedy": "See which members hold its partitions; add members, or find what the handler waits for.",
            "command": f"braid get lag {about['group']}"
            if about["group"]
            else f"braid describe cluster {about['cluster']}",
            "runbook": f"docs/runbooks/{parts[2]}.md",
            "fire_time_ms": NOW_MS - ago_s * _SECOND,
            "resolve_time_ms": NOW_MS - 60_000 if over else 0,
            "resolve_reason": "the lag is below its target again" if over else "",
        }
        | about
        | more
    )


def alerts() -> list[Document]:
    """Returns alerts: two fire, one of them silenced, and one is resolved."""

    silence = {
        "alert": "",
        "reason": "ticket 17",
        "create_time_ms": NOW_MS,
        "expire_time_ms": NOW_MS + 7_200_000,
        "created_by": "spiffe://braid.local/user/ann",
    }
    return [
        _alert("cluster/east/cluster-down", "page", "firing", "Cluster east is down: no broker answers", 95),
        _alert(
            "stream/logs/lag-page/live/indexer",
            "page",
            "firing",
            "indexer is 97 s behind on logs/live, its target is 5 s",
            62,
        ),
        _alert(
            "stream/logs/lag-ticket/bulk/indexer",
            "ticket",
            "firing",
            "indexer used half of its error budget on logs/bulk",
            5_400,
            silence=silence,
        ),
        _alert(
            "stream/orders/lag-page/live/billing", "page", "resolved", "billing was 20 s behind on orders/live", 9_000
        ),
    ]


def responses() -> list[Document]:
    """Returns what groups did about lag by themselves: proposed, in force as far as it goes, and undone."""

    def response(kind: str, state: str, ago_s: int, **more: object) -> Document:
        row = {"group": "indexer", "kind": kind, "lane": "live", "subject": "", "state": state, "before": ""}
        return {"key": f"indexer/{kind}", **row, "after": "", "reason": "", "since_ms": NOW_MS - ago_s * 1_000, **more}

    reason = "lag of live is 97 s, its target 5 s"
    return [
        response("shift_shares", "exhausted", 90, before="0.5", after="0.8", reason=reason),
        response("split_backlog", "proposed", 30, subject="logs/live/7/3", after="0.3", reason=reason),
        response("raise_concurrency", "undone", 3_600, group=HOSTILE),
    ]


def outlets() -> list[Document]:
    """Returns outlets, one of them in trouble."""
    return [
        {"key": "pager", "name": "pager", "kind": "webhook", "trouble": "", "trouble_since_ms": 0, "waiting": 0},
        {
            "key": "chat",
            "name": "chat",
            "kind": "webhook",
            "trouble": "answers 503",
            "trouble_since_ms": NOW_MS - 300_000,
            "waiting": 2,
        },
    ]


_STORY = (
    ("registry", "cluster/east", "ClusterHealthChanged", "east is suspect: an append timed out", "registry-0", "probe"),
    (
        "registry",
        "cluster/east",
        "ClusterHealthChanged",
        "east is down: no broker answers, 3 of 3 hosts agree",
        "registry-0",
        "probe",
    ),
    (
        "registry",
        "stream/logs",
        "TrafficMoved",
        "lane live moves from east to west (channel logs/live/7)",
        "registry-0",
        "east is down",
    ),
    (
        "assigner",
        "group/indexer",
        "LeasesGranted",
        "8 leases of logs/live/7 go to 4 members of indexer",
        "assigner-1",
        "logs/live/7 is active",
    ),
    ("lagmon", "alerts/mesh", "AlertFired", "cluster-down fires for east", "lagmon-0", ""),
    (
        "dlq",
        "replay/01JDR",
        "ReplayCreated",
        "a replay of 1,204 letters of logs begins",
        "spiffe://braid.local/user/ann",
        "",
    ),
    (
        "registry",
        "stream/orders",
        "StreamUpdated",
        f"retention is 72 h, by {HOSTILE}",
        "spiffe://braid.local/user/bob",
        "",
    ),
)


def events(most: int = 60) -> list[Document]:
    """Returns events, the newest of them just now."""
    found = []
    for place in range(most):
        service, history, kind, text, actor, cause = _STORY[place % len(_STORY)]
        found.append(
            {
                "key": f"{history}#{9_000 - place}",
                "time_ms": NOW_MS - 92_000 - place * place * 900,
                "service": service,
                "history": history,
                "sequence": 9_000 - place,
                "type": kind,
                "actor": actor,
                "cause": cause,
                "request_id": "",
                "text": text,
                "data": {"metadata": {"actor": actor}, "note": HOSTILE},
            }
        )
    return found


def letters() -> list[Document]:
    """Returns dead letters of two errors."""
    found = []
    for place in range(140):
        bad = place % 5 == 0
        found.append(
            {
                "key": f"logs/2/0/{place}",
                "name": f"logs/2/0/{place}",
                "stream": "logs",
                "cluster": "west",
                "topic": "braid.logs.dlq.2",
                "partition": 0,
                "offset": place,
                "origin": {
                    "lane": "live",
                    "cluster": "west",
                    "topic": "braid.logs.live.7",
                    "partition": place % 8,
                    "offset": 1_204_200 + 3 * place,
                    "timestamp_ms": NOW_MS - 70_000,
                    "epoch": 7,
                    "id": f"01JDS{place:04}",
                    "ingested_at_ms": NOW_MS,
                    "topic_id": "",
                },
                "group": "indexer",
                "attempts": 5,
                "first_failure_ms": NOW_MS - 600_000 - place * 1_000,
                "last_failure_ms": NOW_MS - 60_000 - place * 1_000,
                "error_class": "json.decoder.JSONDecodeError" if bad else "myapp.errors.UnknownTenant",
                "error_message": "Expecting value: line 1 column 1 (char 0)"
                if bad
                else f"tenant {REVERSED!r} is not known {HOSTILE}",
                "value_bytes": 1_048_576 if place == 0 else 412,
                "quarantine": "",
                "replays": 0,
                "replayed_by": [],
                "state": "handled" if place % 7 == 0 else "parked",
            }
        )
    return found


def kinds() -> list[Document]:
    """Returns the letters grouped by error and handler."""
    found: dict[str, Document] = {}
    for letter in letters():
        kind = found.setdefault(
            letter["error_class"],
            {
                "key": letter["error_class"],
                "error_class": letter["error_class"],
                "group": letter["group"],
                "stream": "logs",
                "lane": "live",
                "count": 0,
                "first_failure_ms": letter["first_failure_ms"],
                "last_failure_ms": letter["last_failure_ms"],
                "parked": 0,
                "example": letter["name"],
            },
        )
        kind["count"] += 1
        kind["parked"] += letter["state"] == "parked"
    return list(found.values())


def letter_in_full() -> Document:
    """Returns one letter with a hostile value, binary headers and a traceback."""
    value = '{"tenant": "' + REVERSED + '", "body": "<img src=x onerror=alert(1)>", "amount": 12345678901234567890}'
    return {
        "letter": letters()[1],
        "key": b"host-1".hex(),
        "key_text": "host-1",
        "value": value.encode().hex(),
        "value_text": value,
        "truncated": False,
        "headers": [
            {"name": "braid-id", "value": b"01JDS0001".hex(), "value_text": "01JDS0001"},
            {"name": HOSTILE, "value": "fffe00"},
        ],
        "traceback": _TRACEBACK,
    }


def replays() -> list[Document]:
    """Returns replays: running, paused, done and failed."""

    def replay(id: str, state: str, matched: int, sent: int, reason: str = "") -> Document:
        status = {
            "state": state,
            "reason": reason,
            "matched": matched,
            "sent": sent,
            "skipped": 2,
            "repeated": 0,
            "rate_per_s": 120.0 if state == "running" else 0.0,
            "update_time_ms": NOW_MS,
            "end_time_ms": 0,
        }
        spec = {
            "stream": "logs",
            "filter": "error=UnknownTenant and group=indexer",
            "destination": "",
            "rate_per_s": 200.0,
            "broadcast": False,
        }
        return {"key": id, "id": id, "spec": spec, "status": status, "create_time_ms": NOW_MS - matched * 100}

    return [
        replay("01JDR5K2QN3V8Y6M4T0Z1A2B3C", "running", 12_040, 4_402),
        replay("01JDR4K2QN3V8Y6M4T0Z1A2B3C", "paused", 900, 120),
        replay("01JDR3K2QN3V8Y6M4T0Z1A2B3C", "done", 44, 42),
        replay("01JDR2K2QN3V8Y6M4T0Z1A2B3C", "failed", 10, 0, "the stream's lane bulk is gone: choose a destination"),
    ]


def pathways() -> list[Document]:
    """Returns two pathways."""

    def point(place: int, direction: str, stream: str, group: str, p95_ms: float, edge_ms: float) -> Document:
        full = {"p50_ms": p95_ms / 2, "p95_ms": p95_ms, "p99_ms": p95_ms * 1.6}
        edge = {"p50_ms": edge_ms / 2, "p95_ms": edge_ms, "p99_ms": edge_ms * 1.6}
        return {
            "hash": f"{place:016x}",
            "parent_hash": f"{place - 1:016x}",
            "direction": direction,
            "service": group or "web",
            "stream": stream,
            "group": group,
            "full": full,
            "edge": edge,
            "records_per_s": 420.0,
            "report_time_ms": NOW_MS,
        }

    way = [
        point(1, "sent", "orders", "", 2.0, 2.0),
        point(2, "received", "orders", "billing", 350.0, 348.0),
        point(3, "sent", "invoices", "", 360.0, 10.0),
        point(4, "received", "invoices", "mailer", 4_100.0, 3_740.0),
    ]
    return [
        {"key": "0000000000000004", "name": "0000000000000004", "points": way, "partial": False},
        {
            "key": "0000000000000012",
            "name": "0000000000000012",
            "points": [point(18, "received", "logs", "indexer", 97_000.0, 97_000.0)],
            "partial": True,
        },
    ]


def grants() -> list[Document]:
    """Returns grants, one of them over."""
    rows = (
        ("ann", "operator", "", 0, False),
        ("bob", "stream_owner", "stream/pay-*", 0, False),
        ("carol", "viewer", "", NOW_MS - 1, True),
    )
    return [
        {
            "key": f"spiffe://braid.local/user/{name} {role} {resource}",
            "spec": {
                "principal": f"spiffe://braid.local/user/{name}",
                "role": role,
                "resource": resource,
                "expire_time_ms": expire,
                "reason": "on call",
            },
            "granted_by": "spiffe://braid.local/user/root",
            "grant_time_ms": NOW_MS - 86_400_000,
            "ended": ended,
        }
        for name, role, resource, expire, ended in rows
    ]


def approvals() -> list[Document]:
    """Returns one approval that waits."""
    request = {
        "verbs": ["delete_stream"],
        "resources": ["stream/logs-old"],
        "asked_by": "spiffe://braid.local/user/bob",
        "letters": 0,
        "command": "braid delete stream logs-old",
    }
    return [
        {
            "key": "01JDT",
            "id": "01JDT8K2QN3V8Y6M4T0Z1A2B3C",
            "request": request,
            "state": "waiting",
            "ask_time_ms": NOW_MS - 400_000,
            "decided_by": "",
            "decide_time_ms": 0,
            "reason": "",
            "left_ms": 3_200_000,
        }
    ]


def policies() -> list[Document]:
    """Returns one approval policy."""
    spec = {
        "verbs": ["delete_stream", "discard_drained"],
        "resource": "",
        "expire_seconds": 0,
        "letters_over": 0,
        "reason": "audit",
    }
    return [
        {
            "key": "two-eyes",
            "name": "two-eyes",
            "spec": spec,
            "set_by": "spiffe://braid.local/user/root",
            "set_time_ms": NOW_MS,
        }
    ]
