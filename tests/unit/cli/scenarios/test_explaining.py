"""`why lease` and `events`: the mesh explains itself."""

import asyncio
import json
from typing import Any
from unittest.mock import patch

import pytest

from braid.api.assigner.v1.assigner_service_pb2 import (
    MemberLoad,
    PlacementMove,
    PreviewPlacementResponse,
    ShadowComparison,
)
from braid.api.assigner.v1.events_pb2 import AssignerEvent, GroupIdleAlerted, GroupUpdated
from braid.api.assigner.v1.rules_pb2 import PLACEMENT_BASIS_LOAD, PlacementPolicy
from braid.api.dlq.v1.events_pb2 import DlqEvent, ReplayCreated
from braid.api.dlq.v1.replay_pb2 import ReplaySpec
from braid.api.registry.v1.registry_service_pb2 import BalanceMove, ClusterBalance, PreviewClustersResponse
from braid.cli.groups.preview import told as preview_text
from braid.cli.history import feed
from braid.cli.history.feed import event_body, parse_subject, summary
from braid.cli.resources.clusters.balance_preview import preview_lines
from braid.kernel.errors import Invalid
from tests.unit.cli.mesh import Shell, virtual


async def with_a_group() -> Shell:
    """A stream that a group has consumed."""
    shell = await Shell().start("east")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    assert (await shell.braid("consume", "logs", "--group", "g", "--timeout", "2")).code == 0
    return shell


@virtual
async def test_a_lease_tells_its_story() -> None:
    shell = await with_a_group()
    told = (await shell.braid("why", "lease", "logs/live/1/0")).out
    assert told.startswith("logs/live/1/0 in group g: free")
    assert "The group was registered for logs" in told
    assert "Granted to ada" in told
    assert told.count("\n") == 1 + told.count("decided by") + 1  # a step a line, where no terminal breaks it
    shown = (await shell.braid("why", "lease", "logs/live/1/0", terminal=True)).out
    assert max(map(len, shown.splitlines())) <= 80
    document = json.loads((await shell.braid("why", "lease", "logs/live/1/0", "-o", "json")).out)
    assert document["lease"]["state"] == "free"
    assert {"metadata", "history", "sequence", "type", "text"} == document["reasons"][0].keys()


@virtual
async def test_a_lease_as_it_was() -> None:
    shell = await with_a_group()
    before = await shell.braid("why", "lease", "logs/live/1/0", "--at", "2025-12-31T00:00:00Z")
    assert before.code == 4
    now = await shell.braid("why", "lease", "logs/live/1/0", "--at", "2026-12-31T00:00:00Z")
    assert now.code == 0


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("why lease logs/live/1", 2, "'logs/live/1' is not a lease"),
        ("why lease logs/live/9/0", 4, "no group consumes channel logs/live/9"),
        ("why stream logs", 2, "it takes lease"),
        ("why lease logs/live/1/0 --at noon", 2, "'noon' is not a time"),
        ("events --for lag/x", 2, "has no history of its own"),
        ("events --for stream", 2, "write stream/NAME"),
        ("events --for stream/nowhere", 4, "nothing is recorded of stream/nowhere"),
        ("events -w --at 14:03", 2, "leave out -w or --at"),
    ],
)
def test_bad_input_gets_a_precise_error(line: str, code: int, told: str) -> None:
    @virtual
    async def scenario() -> None:
        shell = await with_a_group()
        result = await shell.braid(*line.split())
        assert (result.code, result.out) == (code, "")
        assert told in result.err

    scenario()


@virtual
async def test_events_of_all_services_in_order_of_time() -> None:
    shell = await with_a_group()
    document = json.loads((await shell.braid("events", "--max", "0", "-o", "json")).out)
    times = [each["metadata"]["time_ms"] for each in document["items"]]
    assert times == sorted(times)
    assert {each["history"].split("/")[0] for each in document["items"]} == {"registry", "assigner"}
    assert document["items"][0]["data"]["spec"]["bootstrap"] == "east:9092"
    latest = (await shell.braid("events", "--for", "groups/g", "--max", "2")).out.splitlines()
    assert len(latest) == 3
    assert latest[0].split() == ["NAME", "EVENT", "WHAT", "ACTOR", "AGE"]
    assert await shell.braid("get", "events", "--for", "group/g") == await shell.braid("events", "--for", "group/g")


@virtual
async def test_events_up_to_a_moment() -> None:
    shell = await with_a_group()
    nothing = await shell.braid("events", "--at", "2025-12-31T00:00:00Z")
    assert (nothing.code, nothing.out) == (0, "")
    assert "no events match" in nothing.err


@virtual
async def test_events_as_they_happen() -> None:
    shell = await with_a_group()
    watching = asyncio.ensure_future(shell.braid("events", "-w", "--for", "cluster/east", "-o", "json", seconds=5.0))
    await asyncio.sleep(2.0)
    await shell.braid("cordon", "cluster", "east")
    result = await watching
    assert result.code == 0
    assert [json.loads(line)["type"] for line in result.out.splitlines()] == [
        "ClusterRegistered",
        "ClusterBrokersObserved",
        "ClusterMarked",
        "ClusterCordoned",
    ]


@virtual
async def test_events_between_the_list_and_the_watch_are_shown_once() -> None:
    shell = await with_a_group()
    listing = feed.list_events

    async def then_cordoned(*arguments: Any) -> Any:
        found = await listing(*arguments)
        await shell.braid("cordon", "cluster", "east")
        return found

    with patch.object(feed, "list_events", then_cordoned):
        result = await shell.braid("events", "-w", "--for", "cluster/east", "-o", "json", seconds=5.0)
    assert [json.loads(line)["type"] for line in result.out.splitlines()] == [
        "ClusterRegistered",
        "ClusterBrokersObserved",
        "ClusterMarked",
        "ClusterCordoned",
    ]


@virtual
async def test_events_without_a_service() -> None:
    shell = await with_a_group()
    shell.kill("assigner-0")
    result = await shell.braid("events", "-o", "name")
    assert result.code == 0
    assert "event/stream/logs/1" in result.out
    assert result.err.startswith("braid: some events are missing: ")


@virtual
async def test_a_service_the_mesh_does_without_is_not_missed() -> None:
    shell = await with_a_group()
    without = await shell.braid("events", "-o", "name")
    assert (without.code, without.err) == (0, "")
    await shell.replica("dlq-0")
    await asyncio.sleep(1.0)
    assert await shell.braid("events", "-o", "name") == without


def test_events_of_replays_are_read() -> None:
    created = ReplayCreated(spec=ReplaySpec(stream="logs", filter="error=ValueError"), matched=7)
    body = event_body("dlq", DlqEvent(replay_created=created).SerializeToString())
    assert summary(body) == "stream=logs,filter=error=ValueError matched=7"


def test_summaries_name_channels_and_leave_out_what_nobody_reads() -> None:
    assert summary({"lane": "live", "generation": 2, "topic": "braid.logs.live.2", "partitions": 4}) == (
        "live/2 partitions=4"
    )
    assert summary({"leases": [{"lease": "a/b/1/0", "member": "m", "epoch": 1}], "reason": "member_gone"}) == (
        "leases=a/b/1/0 member_gone"
    )
    assert summary({"spec": {"lanes": {"live": {"partitions": 4}}, "clusters": ["a", "b"]}}) == (
        "lanes=live=4,clusters=[a,b]"
    )


def test_events_of_a_later_release_are_shown_without_their_body() -> None:
    assert event_body("lagmon", b"anything") == {}
    assert event_body("registry", b"\xff") == {}


def test_subjects() -> None:
    assert [parse_subject(text) for text in ("", "streams/logs", "group/g", "replay/01R")] == [
        ("", ""),
        ("registry", "stream/logs"),
        ("assigner", "group/g"),
        ("dlq", "replay/01R"),
    ]
    with pytest.raises(Invalid):
        parse_subject("stream/a/b")


@virtual
async def test_a_preview_shows_what_would_move() -> None:
    shell = await with_a_group()
    told = (await shell.braid("preview", "group", "g")).out
    assert told.startswith("group g: no leases would move")
    assert "Nobody would be left." in told
    document = json.loads((await shell.braid("preview", "group", "g", "-o", "json")).out)
    assert document["moves"] == []
    cases = {
        "preview group g --without nobody": (4, "has no member 'nobody'"),
        "preview group g --without-cluster north": (4, "has nothing on cluster 'north'"),
        "preview group g --capacity web-2": (2, "'web-2' is no member's capacity"),
        "preview stream logs": (2, "it takes group"),
    }
    for line, (code, says) in cases.items():
        ran = await shell.braid(*line.split())
        assert ran.code == code and says in ran.err, line


@virtual
async def test_a_preview_of_clusters_shows_every_cluster() -> None:
    shell = await with_a_group()
    told = (await shell.braid("preview", "clusters")).out
    assert told.startswith("no streams would move")
    assert "Balancing is off" in told
    assert json.loads((await shell.braid("preview", "clusters", "-o", "json")).out)["mode"] == "off"
    cases = {
        "preview clusters logs": (2, "a preview of clusters is of all of them"),
        "preview clusters --capacity web-2=1": (2, "a preview of clusters is of all of them"),
        "preview clusters --without nowhere": (4, "there is no cluster nowhere"),
        "preview group --new north": (2, "a preview of leases is of a group"),
    }
    for line, (code, says) in cases.items():
        ran = await shell.braid(*line.split())
        assert ran.code == code and says in ran.err, (line, ran)


def test_a_preview_of_clusters_within_80_columns() -> None:
    row = ClusterBalance(name="east", bytes_per_s_now=9e8, bytes_per_s_then=3e8, load_now=2.5, full_seconds=20_000)
    gone = ClusterBalance(name="west", left_out="is not measured")
    move = BalanceMove(stream="logs", from_cluster="east", to_cluster="west", reason="east has too much")
    lines = preview_lines(PreviewClustersResponse(clusters=[row, gone], moves=[move], move_count=1, problems=["why"]))
    assert max(len(line) for line in lines) <= 80
    assert "logs  east → west  east has too much" in lines
    assert "west  " in "\n".join(lines) and "takes no part: is not measured" in "\n".join(lines)


def test_a_preview_within_80_columns() -> None:
    members = [MemberLoad(member="01", client_id="web-0", leases_now=4, leases_then=6, relative_load_then=1.0)]
    moves = [PlacementMove(lease=f"logs/live/1/{n}", from_member="02", to_member="01") for n in range(30)]
    shadow = ShadowComparison(
        policy=PlacementPolicy(basis=PLACEMENT_BASIS_LOAD, band_high=0.05, band_low=0.1),
        since_ms=1,
        looks=1_000,
        moves=12_345,
        max_over_mean_now=10.0,
        max_over_mean_then=1.0,
        average_now=11.0,
        average_then=1.1,
    )
    found = PreviewPlacementResponse(moves=moves, members=members, measured=True, shadow=shadow)
    told = preview_text("g", found, 60_001)
    assert "Shadow load (moves above 0.05 or below 0.1 of the mean), tried for " in told
    assert "MEMBER         LEASES           LOAD\nweb-0           4 → 6    0.00 → 1.00\n" in told
    assert "logs/live/1/0  02 → web-0" in told
    assert told.endswith("… and 10 more: -o json shows them all")
    assert max(map(len, told.splitlines())) <= 80


def test_a_later_releases_fact_is_shown_without_its_neighbours() -> None:
    alerted = GroupIdleAlerted(left_ms=302_400_000)
    record = AssignerEvent(group_updated=GroupUpdated(), group_idle_alerted=alerted)
    assert summary(event_body("assigner", record.SerializeToString())) == "left_ms=302400000"
