"""`get`, `describe`, `create`, `delete` against a whole mesh in memory: tables, documents, errors."""

import asyncio
import json
import unittest.mock
from pathlib import Path

import pytest
import yaml

from tests.unit.cli.mesh import Result, Shell, virtual

CREATE = ("create", "stream", "logs", "--lane", "live=4", "--lane", "bulk=2")


async def with_stream() -> Shell:
    """Two clusters and a stream, its standbys provisioned."""
    shell = await Shell().start("east", "west")
    result = await shell.braid(*CREATE)
    assert result == Result(0, "stream/logs created; watch it: braid get channels logs -w\n", "")
    await asyncio.sleep(1.0)
    return shell


@virtual
async def test_tables_are_golden() -> None:
    shell = await with_stream()
    assert (await shell.braid("get", "streams")).out == (
        "NAME  LANES          ON    STATE  AGE\n"
        "logs  bulk=2,live=4  east  OK     1s\n"
    )  # fmt: skip
    assert (await shell.braid("get", "channels", "logs/live")).out == (
        "NAME         CLUSTER  STATE    PARTITIONS  WAITS FOR  AGE\n"
        "logs/live/1  east     ACTIVE   4           -          1s\n"
        "logs/live/2  west     STANDBY  4           -          1s\n"
    )
    assert (await shell.braid("get", "clusters")).out == (
        "NAME  ZONE  HEALTH   BOOTSTRAP  ACTIVE  DRAINING  AGE\n"
        "east  a     HEALTHY  east:9092  3       0         1s\n"
        "west  b     HEALTHY  west:9092  0       0         1s\n"
    )
    assert (await shell.braid("get", "groups")) == Result(0, "", "braid: there are no groups\n")


@virtual
async def test_json_is_stable() -> None:
    shell = await with_stream()
    document = json.loads((await shell.braid("get", "cluster", "east", "-o", "json", "--status")).out)
    assert document["metadata"].pop("create_time_ms") > 1_700_000_000_000
    assert document["status"].pop("health_since_ms") > 1_700_000_000_000
    load = document["status"].pop("load")
    assert [load.pop(each) > 0 for each in ("measured_ms", "free_bytes", "total_bytes")] == [True] * 3
    assert load == {"broker": 1, "bytes_per_s": 0.0, "silent_brokers": [], "unmeasured": ""}
    evidence = document["status"].pop("evidence")
    assert {name: evidence[name] for name in ("failed", "brokers", "partitions", "gone", "denied", "falls")} == {
        "failed": "",
        "brokers": 1,
        "partitions": 8,
        "gone": [],
        "denied": "",
        "falls": 0,
    }
    assert document == {
        "apiVersion": "braid/v1",
        "kind": "Cluster",
        "metadata": {"name": "east", "etag": document["metadata"]["etag"]},
        "spec": {
            "bootstrap": "east:9092",
            "zone": "a",
            "capacity": 0,
            "security_profile": "",
            "topic_prefix": "braid.",
            "allow_auto_create_topics": False,
        },
        "status": {
            "health": "healthy",
            "health_reason": "",
            "kafka_cluster_id": "east-1",
            "cordoned": False,
            "active_channels": 3,
            "draining_channels": 0,
            "verdict": "well",
            "usual_brokers": [1],
            "mesh": document["status"]["mesh"],
            "foreign_mesh": "",
            "orphan_topics": [],
            "orphan_groups": [],
            "orphans": 0,
        },
    }
    assert document["status"]["mesh"]


@virtual
async def test_declarations_print_no_status_unless_it_is_asked_for() -> None:
    shell = await with_stream()
    clean = yaml.safe_load((await shell.braid("get", "stream", "logs", "-o", "yaml")).out)
    full = yaml.safe_load((await shell.braid("get", "stream", "logs", "-o", "yaml", "--status")).out)
    assert list(clean) == ["apiVersion", "kind", "metadata", "spec"] and clean["metadata"] == {"name": "logs"}
    assert clean["spec"] == full["spec"]
    assert full["status"]["channels"] and {"etag", "create_time_ms"} < full["metadata"].keys()
    (cluster, _) = json.loads((await shell.braid("get", "clusters", "-o", "json")).out)["items"]
    assert list(cluster) == ["apiVersion", "kind", "metadata", "spec"]


@virtual
async def test_a_watch_of_declarations_ignores_changes_of_status() -> None:
    shell = await with_stream()
    line = ("get", "clusters", "-w", "-o", "json")
    clean = asyncio.ensure_future(shell.braid(*line, seconds=10.0))
    full = asyncio.ensure_future(shell.braid(*line, "--status", seconds=10.0))
    await asyncio.sleep(3.0)
    await shell.braid("cordon", "cluster", "west")
    assert [json.loads(each)["metadata"]["name"] for each in (await clean).out.splitlines()] == ["east", "west"]
    assert any(json.loads(each)["status"]["cordoned"] for each in (await full).out.splitlines())


def test_what_get_prints_can_be_applied_again(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await with_stream()
        for line in ("get clusters -o yaml", "get streams -o json", "get stream logs -o yaml --status"):
            path = tmp_path / "again.yaml"
            path.write_text((await shell.braid(*line.split())).out)
            applied = await shell.braid("apply", "-f", str(path))
            assert applied.code == 0 and applied.out, (line, applied)
            assert all(each.endswith(" unchanged") for each in applied.out.splitlines())

    scenario()


@virtual
async def test_json_lists_items() -> None:
    shell = await with_stream()
    document = json.loads((await shell.braid("get", "channels", "-o", "json")).out)
    assert (document["kind"], len(document["items"])) == ("List", 6)
    channel = document["items"][0]
    assert list(channel) == [
        *("apiVersion", "kind", "name", "stream", "lane", "generation", "cluster", "topic", "partitions", "state"),
        *("stranded", "weight", "topic_id", "end_offsets", "drain_step", "drain_holders", "state_since_ms"),
        *("lost", "lost_evidence", "acknowledged", "closed", "waits_for", "overwritten"),
        *("left_revision", "in_order", "retiring", "replication_factor", "zone"),
    ]
    assert (channel["generation"], channel["state"], channel["weight"]) == (1, "active", 1.0)


@virtual
async def test_names_and_yaml() -> None:
    shell = await with_stream()
    assert (await shell.braid("get", "stream", "-o", "name")).out == "stream/logs\n"
    assert yaml.safe_load((await shell.braid("get", "streams", "logs", "-o", "yaml")).out)["spec"]["lanes"] == {
        "bulk": {"partitions": 2},
        "dlq": {"partitions": 1},
        "live": {"partitions": 4},
    }


@virtual
async def test_every_table_fits_80_columns_of_a_terminal() -> None:
    shell = await with_stream()
    for line in ("get streams", "get channels", "get clusters", "get events", "describe stream logs", "doctor"):
        printed = (await shell.braid(*line.split(), terminal=True)).out
        assert printed
        assert max(map(len, printed.splitlines())) <= 80, line


@virtual
async def test_piped_tables_are_never_cut() -> None:
    shell = await Shell().start("east")
    brokers = ",".join(f"a-broker-with-a-long-name-{number}.example:9092" for number in range(3))
    shell.kafka.add_cluster("far", brokers)
    assert (await shell.braid("create", "cluster", "far", "--bootstrap", brokers)).code == 0
    for line in ("get clusters", "get clusters -o wide"):
        assert brokers in (await shell.braid(*line.split())).out
    assert brokers not in (await shell.braid("get", "clusters", terminal=True)).out
    assert brokers in (await shell.braid("get", "clusters", "-o", "wide", terminal=True)).out
    piped = (await shell.braid("describe", "cluster", "far")).out
    assert "…" not in piped and f"bootstrap={brokers}" in piped


@virtual
async def test_describe_tells_what_belongs_to_it_and_what_happened() -> None:
    shell = await with_stream()
    told = (await shell.braid("describe", "stream", "logs")).out
    assert "failover:                 automatic" in told
    assert "logs/live/2  west     STANDBY" in told
    assert "Groups: none" in told
    assert "ChannelProvisioned  live/2" in told
    document = json.loads((await shell.braid("describe", "stream", "logs", "-o", "json")).out)
    assert {"spec", "status", "channels", "groups", "events"} <= document.keys()
    assert "logs/bulk/1" in (await shell.braid("describe", "clusters", "east")).out


@virtual
async def test_a_watch_prints_what_changes() -> None:
    shell = await with_stream()
    watching = asyncio.ensure_future(shell.braid("get", "clusters", "-w", seconds=10.0))
    await asyncio.sleep(3.0)
    await shell.braid("cordon", "cluster", "west")
    result = await watching
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines] == ["NAME", "east", "west", "west"]
    assert "HEALTHY (cordoned)" in lines[3]


@virtual
async def test_a_follower_answers_when_nobody_leads() -> None:
    shell = await Shell().start("east", registries=2)
    with (
        unittest.mock.patch.object(shell.server, "renew", return_value=False),
        unittest.mock.patch.object(shell.server, "try_lead", return_value=1.0),
    ):
        await asyncio.sleep(5.0)
        result = await shell.braid("get", "clusters", "-o", "name")
    assert (result.code, result.out) == (0, "cluster/east\n")
    assert "a follower answers" in result.err


@virtual
async def test_names_nobody_has() -> None:
    shell = await with_stream()
    assert await shell.braid("get", "stream", "lgos") == Result(
        4, "", "braid: there is no stream lgos\n  try: did you mean logs?\n"
    )
    result = await shell.braid("describe", "cluster", "nowhere")
    assert (result.code, result.err) == (
        4,
        "braid: there is no cluster nowhere\n  try: list what there is: braid get clusters\n",
    )


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("create stream logs", 2, "--lane: a stream needs a lane"),
        ("create stream logs --lane live", 2, "'live' is not NAME=VALUE"),
        ("create stream logs --lane live=many", 2, "'many' is not a number of partitions"),
        ("create stream logs --lane live=1 --lane live=2", 2, "live is given twice"),
        ("create stream logs --lane live=0", 2, "spec.lanes.live.partitions: 0 is not between 1 and"),
        ("create stream logs --lane live=999999", 2, "spec.lanes.live.partitions: 999999 is not between 1 and"),
        ("create stream Logs --lane live=1", 2, "'Logs' is not a name"),
        ("create stream logs --lane live=1 --clusters mars", 2, "spec.clusters[0]: there is no cluster mars"),
        ("create stream logs --lane live=1 --failover sometimes", 2, "use one of automatic, propose, off"),
        ("create stream logs --lane live=1 --config nonsense=1", 2, "nonsense"),
        ("create stream taken --lane live=1", 4, "exists already"),
        ("create cluster north --bootstrap north:9092", 3, "cluster north does not answer at north:9092"),
        ("create cluster south --bootstrap nonsense", 2, "spec.bootstrap"),
        ("create cluster again --bootstrap east:9092", 4, "registered already, as east"),
        ("create cluster careless --bootstrap careless:9092", 4, "auto.create.topics.enable=true"),
        ("get streams -o xml", 2, "'xml' is no output format here"),
        ("get channels -o json --status", 2, "--status: channels have none"),
        ("get streams --status", 2, "--status: a table shows states of its own\n  try: add -o json or -o yaml"),
        ("get streams --group g", 2, "it goes with members or leases"),
        ("get strems", 2, "did you mean `braid get streams`?"),
        ("describe lease a/b/1/0", 4, "there is no lease a/b/1/0"),
        ("delete stream taken", 2, "--yes: this is no terminal, so nobody can confirm"),
        ("delete stream takne --yes", 4, "did you mean taken?"),
        ("delete member x --yes", 2, "knows no type 'member'"),
        ("delete cluster east --yes", 4, "is still on cluster east"),
    ],
)
def test_bad_input_gets_a_precise_error(line: str, code: int, told: str) -> None:
    @virtual
    async def scenario() -> None:
        shell = await Shell().start("east")
        shell.kafka.add_cluster("careless", auto_creates_topics=True)
        assert (await shell.braid("create", "stream", "taken", "--lane", "live=1")).code == 0
        result = await shell.braid(*line.split())
        assert (result.code, result.out) == (code, "")
        assert told in result.err
        assert "Traceback" not in result.err

    scenario()


@virtual
async def test_a_dry_run_changes_nothing() -> None:
    shell = await Shell().start("east")
    result = await shell.braid(*CREATE, "--dry-run")
    assert result == Result(0, "stream/logs created (dry run: nothing was changed)\n", "")
    assert (await shell.braid("get", "streams")).out == ""


@virtual
async def test_delete_takes_it_away() -> None:
    shell = await with_stream()
    assert (await shell.braid("delete", "streams", "logs", "--yes")) == Result(0, "stream/logs deleted\n", "")
    assert (await shell.braid("get", "streams")).err == "braid: there are no streams\n"
