"""Documents of an invented mesh during a failover, in the form in which the console's server sends them.

One cluster is down, one is half dead, a stream drains, a group waits, and two names are hostile.
"""

from typing import Any, Final

NOW_MS: Final = 1_795_960_800_000  # 29 November 2026, 14:00 UTC
HOSTILE: Final = "<script>document.title='owned'</script>"
REVERSED: Final = "invoice-\u202egnp.exe"
_MINUTE: Final = 60_000
_DONE_AFTER: Final = 128  # records of a partition that are done after its commit
Document = dict[str, Any]

CLUSTER_STATES: Final = (
    ("east", "down", "no broker answers, and 3 of 3 hosts agree", 95_000),
    ("north", "half_dead", "2 of 24 partitions have no leader: broker 3 is gone", 540_000),
    ("south", "healthy", "", 86_400_000),
    ("west", "healthy", "", 950_400_000),
)


def _evidence(health: str) -> Document:
    down = health == "down"
    return {
        "looked_ms": NOW_MS - 800,
        "failed": "reading metadata timed out" if down else "",
        "append_seconds": 0.0 if down else 0.0042,
        "usual_append_seconds": 0.006,
        "slow_append_seconds": 0.25,
        "brokers": 0 if down else 3,
        "missing_brokers": [3] if health == "half_dead" else [],
        "partitions": 24,
        "gone_partitions": 2 if health == "half_dead" else 0,
        "under_replicated_partitions": 9 if health == "half_dead" else 0,
        "hosts": 3,
        "hosts_reaching": 0 if down else 3,
        "hosts_failing": 3 if down else 0,
        "falls": 1 if down else 0,
        "no_topics": "",
        "denied": "",
        "silent_brokers": [1, 2, 3] if down else [],
    }


def _load(down: bool) -> Document:
    return {
        "measured_ms": 0 if down else NOW_MS - 20_000,
        "broker": 2,
        "free_bytes": 212_000_000_000,
        "total_bytes": 500_000_000_000,
        "bytes_per_s": 18_400_000.0,
        "silent_brokers": [],
        "unmeasured": "the cluster does not answer" if down else "",
    }


def cluster(name: str, health: str, reason: str, for_ms: int) -> Document:
    """Returns a cluster with evidence for its health."""
    down = health == "down"
    return {
        "key": name,
        "name": name,
        "spec": {
            "bootstrap": f"kafka-1.{name}.example:9093,kafka-2.{name}.example:9093",
            "zone": f"zone-{name[0]}",
            "capacity": 0,
            "security_profile": name,
        },
        "status": {
            "health": health,
            "health_reason": reason,
            "health_since_ms": NOW_MS - for_ms,
            "kafka_cluster_id": f"MkU3OEVBNTcwNTJENDM2{name[0].upper()}",
            "cordoned": name == "south",
            "active_channels": {"east": 0, "north": 1, "south": 0, "west": 5}[name],
            "draining_channels": 2 if down else 0,
            "verdict": "dead" if down else health.replace("healthy", "well"),
            "evidence": _evidence(health),
            "load": _load(down),
            "usual_brokers": [1, 2, 3],
            "orphans": 0,
        },
        "create_time_ms": NOW_MS - 950_400_000,
    }


def channel(stream: str, lane: str, generation: int, where: str, state: str, **more: Any) -> Document:
    """Returns a channel, its key being its name."""
    name = f"{stream}/{lane}/{generation}"
    return {
        "key": name,
        "name": name,
        "stream": stream,
        "lane": lane,
        "generation": generation,
        "cluster": where,
        "topic": f"braid.{stream}.{lane}.{generation}",
        "partitions": 8,
        "state": state,
        "stranded": False,
        "weight": 1.0 if state == "active" else 0.0,
        "drain_step": "",
        "drain_holders": [],
        "state_since_ms": NOW_MS - 93_000,
        "waits_for": [],
        "lost": [],
        "closed": False,
        "replication_factor": 3,
    } | more


def stream(name: str, channels: list[Document], blocked: str = "") -> Document:
    """Returns a stream with the channels given."""
    lanes = sorted({each["lane"] for each in channels} | {"dlq"})
    return {
        "key": name,
        "name": name,
        "spec": {
            "lanes": {lane: {"partitions": 1 if lane == "dlq" else 8} for lane in lanes},
            "clusters": ["east", "west"] if name == "logs" else [],
            "replication_factor": 0,
            "retention_hours": 72,
            "failover": "automatic",
            "ordered": False,
            "lag_target": {"live": "5s"} if name == "logs" else {},
        },
        "status": {"route_revision": 41, "channels": channels, "blocked_reason": blocked},
        "create_time_ms": NOW_MS - 86_400_000,
        "tenant": "",
    }


def streams() -> list[Document]:
    """Returns the streams: `logs` fails over from east to west just now."""
    held = {
        "drain_step": "groups",
        "drain_holders": ["group indexer", "group archiver", "group audit"],
        "stranded": True,
    }
    logs = [
        channel("logs", "live", 7, "west", "active"),
        channel("logs", "live", 6, "east", "draining", **held),
        channel("logs", "bulk", 3, "west", "active", state_since_ms=NOW_MS - 86_000_000),
        channel("logs", "dlq", 2, "west", "active"),
        channel("logs", "dlq", 1, "east", "draining", drain_step="producers", stranded=True, drain_holders=["web-1"]),
        channel("logs", "live", 5, "west", "drained", state_since_ms=NOW_MS - 9_000_000),
    ]
    orders = [
        channel("orders", "live", 2, "west", "active", weight=3.0),
        channel("orders", "live", 3, "north", "active", weight=1.0),
        channel("orders", "dlq", 1, "west", "active"),
    ]
    metrics = [channel("metrics", "live", 1, "east", "active", stranded=True)]
    blocked = "no other cluster may carry it: only east is allowed"
    return [stream("logs", logs), stream("orders", orders), stream("metrics", metrics, blocked), stream(HOSTILE, [])]


def lag(group: str, where: str, seconds: float, records: int, **more: Any) -> Document:
    """Returns the lag of a group; `where` is `stream/lane`, or with `/cluster/topic` and `/partition` more narrow."""
    parts = [*where.split("/"), "", "", ""][:5]
    return {
        "key": f"{group}/{where}",
        "group": group,
        "stream": parts[0],
        "lane": parts[1],
        "cluster": parts[2],
        "topic": parts[3],
        "partition": int(parts[4]) if parts[4] else -1,
        "partitions": 8,
        "lag_records": records,
        "lag_seconds": seconds,
        "source": "envelope",
        "foreign": False,
        "stale": False,
        "as_of_ms": NOW_MS - 400,
        "committed_offset": 1_204_331 if parts[4] else -1,
        "end_offset": 1_204_331 + records + _DONE_AFTER if parts[4] else -1,
        "epoch": 0,
        "detached": False,
        "commit_time_ms": NOW_MS - 700,
        "split_partitions": 0,
        "live_lag_seconds": 0.0,
        "unattended": False,
    } | more


def lags() -> list[Document]:
    """Returns the lag of lanes: growing, shrinking, stale, estimated, unknown and zero."""
    return [
        lag("indexer", "logs/live", 97.3, 184_220, trend_per_s=1_212.5, stale=True, as_of_ms=NOW_MS - 95_000),
        lag("indexer", "logs/bulk", 3_840.0, 9_120_400, trend_per_s=-5_210.0, seconds_to_zero=1_750.0),
        lag("archiver", "logs/live", 1.2, 310, trend_per_s=0.0),
        lag("audit", "logs/live", 0.0, 0, source="done", trend_per_s=0.0),
        lag("billing", "orders/live", 0.35, 12, trend_per_s=0.4),
        lag("legacy-report", "orders/live", 610.0, 44_000, source="estimate", foreign=True),
        lag(HOSTILE, "orders/live", 12.0, 90, source="unknown", unattended=True),
    ]


def group(name: str, members: int, leases: int, free: int, **more: Any) -> Document:
    """Returns a group."""
    status = {
        "members": members,
        "leases": leases,
        "free_leases": free,
        "idle_since_ms": 0 if members else NOW_MS - 3_600_000,
        "stopped_lanes": [],
        "doubts": [],
    }
    spec = {"streams": ["logs"], "ownership": "at_least_once", "lease_ms": 3_000, "fencing": "generation", "lanes": {}}
    return {
        "key": name,
        "name": name,
        "spec": spec,
        "status": status,
        "rules": {"pins": [], "warnings": [], "zones": "any"},
        "create_time_ms": NOW_MS - 86_400_000,
        "tenant": "",
    } | more


def groups() -> list[Document]:
    """Returns the groups."""
    frozen = {"rules": {"freeze": {"since_ms": NOW_MS, "reason": "release 14"}, "warnings": [], "zones": "any"}}
    return [
        group("indexer", 5, 24, 2),
        group("archiver", 2, 24, 0),
        group("audit", 1, 8, 0, **frozen),
        group("billing", 3, 16, 0),
        group(HOSTILE, 0, 0, 0),
    ]


def members() -> list[Document]:
    """Returns the members of `indexer`."""
    loads = (1.62, 1.1, 0.9, 0.78, 0.6)
    return [
        {
            "key": f"01JDQ{place}",
            "id": f"01JDQ7W1N3V8Y6{place}",
            "group": "indexer",
            "client_id": f"indexer-{place}",
            "zone": f"zone-{'ew'[place % 2]}",
            "state": "awaited" if place == 4 else "live",
            "join_time_ms": NOW_MS - (place + 1) * 47 * _MINUTE,
            "leases": 5 if place < 4 else 2,
            "peer": f"10.4.0.{place + 11}:40112",
            "capacity": 1.0,
            "drain": "draining" if place == 3 else "",
            "relative_load": load,
            "stopped": [],
        }
        for place, load in enumerate(loads)
    ]


def spark_jobs() -> list[Document]:
    """Returns Spark queries: one at work, one that its group's leader has not heard of yet."""
    found = []
    for place, (name, group, state) in enumerate(
        [("braid-spark-etl-7f3a", "archiver", "live"), (HOSTILE, "audit", "awaited")]
    ):
        job = members()[place] | {"key": f"01JDR{place}", "id": f"01JDR7W1N3V8Y6{place}", "group": group}
        found.append(job | {"client_id": name, "state": state, "drain": "", "leases": 8 - 8 * place, "spark": True})
    return found


def _owner(place: int) -> int | None:
    return None if place in (5, 13) else place % 5


def progress() -> Document:
    """Returns what a commit tells of a partition: some records failed once or more, others wait for their handlers."""
    first = 1_204_331
    return {
        "committed_offset": first,
        "commit_time_ms": NOW_MS - 700,
        "has_envelope": True,
        "done": [
            {"first": first + 3, "last": first + 2 + _DONE_AFTER - 6},
            {"first": first + 140, "last": first + 145},
        ],
        "rejected": [{"first": first + 20, "last": first + 20}],
        "retried": [{"offset": first + 1, "attempts": 3}, {"offset": first + 130, "attempts": 1}],
        "partial": False,
    }


def leases() -> list[Document]:
    """Returns the leases of `indexer`: two are free, one is being revoked."""
    found = []
    for place in range(24):
        name = f"logs/{'live/7' if place < 8 else 'live/6' if place < 16 else 'bulk/3'}/{place % 8}"
        owner = _owner(place)
        held = owner is not None
        found.append(
            {
                "key": name,
                "name": name,
                "group": "indexer",
                "cluster": "east" if 8 <= place < 16 else "west",
                "topic": f"braid.{name.rsplit('/', 1)[0].replace('/', '.')}",
                "partition": place % 8,
                "member": f"01JDQ7W1N3V8Y6{owner}" if held else "",
                "member_client_id": f"indexer-{owner}" if held else "",
                "epoch": (7 << 40) + 15 + place,
                "state": "free" if not held else "revoking" if place == 3 else "held",
                "since_ms": NOW_MS - (30_000 if place < 8 else 7_200_000),
                "rule": "",
            }
        )
    return found


def lease_lags() -> list[Document]:
    """Returns the lag of `indexer` by partition."""
    found = []
    for lease in leases():
        _, lane, _, partition = lease["name"].split("/")
        seconds = {"east": 97.0, "west": 0.4 * int(partition)}[lease["cluster"]] if lane == "live" else 3_000.0
        where = f"logs/{lane}/{lease['cluster']}/{lease['topic']}/{partition}"
        stale = lease["cluster"] == "east"
        found.append(lag("indexer", where, seconds, int(seconds * 310), stale=stale))
    return found


def history() -> list[Document]:
    """Returns kept lag of two hours: a lag that grows after a failover, one that shrinks, and a gap."""

    def step(place: int, seconds: float) -> Document:
        known = not 300 <= place < 330
        numbers = {
            "max_lag_seconds": seconds * 1.2,
            "lag_seconds": seconds,
            "lag_records": int(seconds * 310),
            "produced_per_s": 5_200.0 + 300 * (place % 7),
            "done_per_s": 4_700.0 + 200 * (place % 5),
        }
        marks = {
            "known_seconds": 10.0 if known else 0.0,
            "stale": place > 710,
            "unknown": not known,
            "estimated": False,
        }
        return {"time_ms": NOW_MS - (720 - place) * 10_000} | (numbers if known else {}) | marks

    live = [step(place, 1.5 if place < 710 else (place - 709) * 9.7) for place in range(720)]
    bulk = [step(place, 7_000.0 - place * 4.4) for place in range(720)]
    return [
        {"key": "indexer/logs/live", "group": "indexer", "stream": "logs", "lane": "live", "steps": live},
        {"key": "indexer/logs/bulk", "group": "indexer", "stream": "logs", "lane": "bulk", "steps": bulk},
    ]
