"""Pages over a mesh: what they show, whose rights they have, and how each part grows stale by itself."""

import math

from braid.api.lagmon.v1 import alert_pb2, lag_pb2
from braid.runtime.access.settings import AccessMode, AccessSettings
from console.server.views import VIEWS
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual

ADA = "spiffe://braid.local/user/ada"
EVE = "spiffe://braid.local/user/eve"
HOSTILE = "<script>alert(1)</script> \u202etxt.exe \u0000 " + "x" * 100_000


async def started() -> Shell:
    """A mesh of two clusters and one stream, with every service."""
    shell = await Shell().start("east", "west")
    await shell.replica("lagmon-0")
    await shell.replica("dlq-0")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    return shell


@virtual
async def test_every_page_answers_with_all_its_parts() -> None:
    browser = await ConsoleMesh(await started()).signed_in()
    named = {"stream": "logs", "cluster": "east", "group": "none", "dead-letter": "none", "lease": "logs/live/1/0"}
    missing = ("group", "dead-letter", "lease")
    for view, kind in VIEWS.items():
        query = f"?{kind.required[0]}={named[view]}" if view in named else ""
        answer = await browser.get(f"/api/views/{view}{query}")
        assert answer.status == 200, (view, answer)
        parts = answer.json["parts"].values()
        assert all(each["as_of_ms"] for each in parts), (view, answer.json)
        errors = [each["error"]["status"] for each in parts if each["error"]]
        assert not errors or (view in missing and set(errors) == {404}), (view, errors)


@virtual
async def test_overview_counts_what_the_mesh_has() -> None:
    shell = await started()
    shell.lagmon.rows = [lag_pb2.Lag(group="g", stream="logs", lane="live", lag_seconds=7.5, lag_records=3)]
    browser = await ConsoleMesh(shell).signed_in()
    parts = (await browser.get("/api/views/overview")).json["parts"]
    summary = parts["summary"]["value"]
    assert (summary["clusters"], summary["streams"], summary["groups"], summary["alerts_firing"]) == (2, 1, 0, 0)
    assert summary["worst_lag_seconds"] == 7.5
    assert [row["key"] for row in parts["lag"]["rows"]] == ["g/logs/live"]
    assert "ChannelProvisioned" in {row["type"] for row in parts["events"]["rows"]}


@virtual
async def test_a_dead_service_makes_its_own_parts_stale() -> None:
    shell = await started()
    browser = await ConsoleMesh(shell).signed_in()
    async with browser.stream("/api/live/streams") as stream:
        rows = (await stream.next("snapshot")).data["parts"]["streams"]["rows"]
        assert [row["key"] for row in rows] == ["logs"]
        shell.kill("registry-0")
        change = (await stream.next("delta")).data["parts"]
        while not change.get("streams", {}).get("stale"):
            change = (await stream.next("delta")).data["parts"]
        assert change["streams"]["error"]["status"] == 503
        assert "removed" not in change["streams"]
    parts = (await browser.get("/api/views/streams")).json["parts"]
    assert [row["key"] for row in parts["streams"]["rows"]] == ["logs"]
    assert not parts["lag"]["stale"]
    assert parts["lag"]["as_of_ms"] > parts["streams"]["as_of_ms"]


@virtual
async def test_each_person_sees_what_their_own_rights_allow() -> None:
    shell = Shell()
    shell.access = AccessSettings(AccessMode.ENFORCED, frozenset({ADA}))
    shell.principals["cli"] = ADA
    await shell.start("east")
    mesh = ConsoleMesh(shell)
    ada, eve = await mesh.person("ada", ADA), await mesh.person("eve", EVE)
    seen, refused = [(await each.get("/api/views/clusters")).json["parts"]["clusters"] for each in (ada, eve)]
    assert [row["key"] for row in seen["rows"]] == ["east"]
    assert refused["rows"] == []
    assert refused["error"]["status"] == 403
    assert EVE in refused["error"]["message"]


@virtual
async def test_a_right_that_is_revoked_clears_what_was_seen() -> None:
    shell = Shell()
    shell.access = AccessSettings(AccessMode.ENFORCED, frozenset({ADA}))
    shell.principals["cli"] = ADA
    await shell.start("east")
    assert (await shell.braid("grant", "viewer", "--to", EVE)).code == 0
    eve = await ConsoleMesh(shell).person("eve", EVE)
    async with eve.stream("/api/live/clusters") as stream:
        assert (await stream.next("snapshot")).data["parts"]["clusters"]["rows"]
        assert (await shell.braid("revoke", "viewer", "--from", EVE)).code == 0
        change = (await stream.next("delta")).data["parts"].get("clusters", {})
        while not change.get("error"):
            change = (await stream.next("delta")).data["parts"].get("clusters", {})
        assert change["removed"] == ["east"]
        assert change["error"]["status"] == 403


@virtual
async def test_hostile_texts_stay_strings_and_numbers_json() -> None:
    shell = await started()
    shell.lagmon.alerts = [alert_pb2.Alert(name="a/b", summary=HOSTILE, state=alert_pb2.ALERT_STATE_FIRING)]
    shell.lagmon.rows = [lag_pb2.Lag(group="g", stream="logs", lane="live", lag_seconds=math.inf)]
    browser = await ConsoleMesh(shell).signed_in()
    answer = await browser.get("/api/views/alerts")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["parts"]["alerts"]["rows"][0]["summary"] == HOSTILE
    streams = await browser.get("/api/views/streams")
    assert b"Infinity" not in streams.body
    assert streams.json["parts"]["lag"]["rows"][0]["lag_seconds"] is None


@virtual
async def test_an_unknown_page_or_parameter_is_named() -> None:
    browser = await ConsoleMesh(await Shell().start("east")).signed_in()
    unknown = await browser.get("/api/views/nothing")
    assert (unknown.status, unknown.json["error"]["field"]) == (404, "view")
    strange = await browser.get("/api/views/streams?colour=red")
    assert (strange.status, strange.json["error"]["field"]) == (400, "colour")
    missing = await browser.get("/api/views/stream")
    assert (missing.status, missing.json["error"]["field"]) == (400, "name")
    nowhere = await browser.get("/api/nothing")
    assert nowhere.status == 404


@virtual
async def test_search_finds_names_of_every_kind() -> None:
    browser = await ConsoleMesh(await started()).signed_in()
    found = (await browser.get("/api/search?q=lo")).json
    assert [each["key"] for each in found["names"]] == ["stream/logs"]
    every = (await browser.get("/api/search")).json
    assert {each["kind"] for each in every["names"]} == {"stream", "cluster"}


@virtual
async def test_events_go_back_page_by_page() -> None:
    browser = await ConsoleMesh(await started()).signed_in()
    first = (await browser.get("/api/events?history=stream/logs")).json
    assert first["events"][0]["history"] == "stream/logs"
    older = (await browser.get(f"/api/events?history=stream/logs&page_token={first['next_page_token']}")).json
    assert not {each["key"] for each in older["events"]} & {each["key"] for each in first["events"]}
    strange = await browser.get("/api/events?history=moon/x")
    assert (strange.status, strange.json["error"]["field"]) == (400, "history")
