"""`get alerts`, `describe alert` and `silence`: what they print, and what they ask for."""

import asyncio
import json

from braid.api.lagmon.v1 import alert_pb2 as pb
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.scripted import FIRST_MS

NAME = "stream/logs/lag-page/live/indexer"


def alert(**changed: object) -> pb.Alert:
    """An alert that fires."""
    fields: dict[str, object] = {
        "name": NAME, "rule": "lag-page", "severity": pb.ALERT_SEVERITY_PAGE, "state": pb.ALERT_STATE_FIRING,
        "stream": "logs", "lane": "live", "group": "indexer", "summary": "group indexer is 12.5 s behind",
        "remedy": "Add members.", "command": "braid get lag indexer", "runbook": "docs/runbooks/lag-page.md",
        "fire_time_ms": FIRST_MS,
    }  # fmt: skip
    return pb.Alert(**{**fields, **changed})  # type: ignore[arg-type]


async def with_alerts(*alerts: pb.Alert) -> Shell:
    """A mesh whose lagmon knows some alerts."""
    shell = await Shell().start("east")
    await shell.replica("lagmon-0")
    await asyncio.sleep(1.0)  # until every directory has it
    shell.lagmon.alerts = list(alerts)
    return shell


@virtual
async def test_alerts_are_listed_by_state_and_severity() -> None:
    silenced = alert(name="stream/other/lag-page/live/indexer", stream="other", silence=pb.Silence(alert="x"))
    pending = alert(name="cluster/east/cluster-doubted", stream="", state=pb.ALERT_STATE_PENDING, fire_time_ms=0)
    shell = await with_alerts(alert(), silenced, pending)
    lines = (await shell.braid("get", "alerts")).out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["NAME", "SEVERITY", "STATE"],
        [NAME, "PAGE", "FIRING"],
        ["stream/other/lag-page/live/indexer", "PAGE", "SILENCED"],
        ["cluster/east/cluster-doubted", "PAGE", "PENDING"],
    ]
    assert (await shell.braid("get", "alerts", "--stream", "logs", "-o", "name")).out == f"alert/{NAME}\n"
    document = json.loads((await shell.braid("get", "alert", NAME, "-o", "json")).out)
    assert (document["kind"], document["state"], document["rule"]) == ("Alert", "firing", "lag-page")


@virtual
async def test_an_alert_is_described_with_its_remedy() -> None:
    silence = pb.Silence(reason="ticket 17", created_by="ann", expire_time_ms=FIRST_MS)
    shell = await with_alerts(alert(silence=silence))
    told = (await shell.braid("describe", "alert", NAME)).out
    for part in (
        "state:     SILENCED\n",
        "12.5 s behind",
        "by ann: ticket 17",
        "Add members.",
        "\nbraid get lag indexer\n",
    ):
        assert part in told
    shell.lagmon.alerts = [alert(resolve_time_ms=FIRST_MS + 1, resolve_reason="over", state=pb.ALERT_STATE_RESOLVED)]
    told = (await shell.braid("describe", "alert", f"alert/{NAME}")).out
    assert "because:   over" in told
    assert "braid get lag" not in told


@virtual
async def test_an_unknown_alert_names_the_nearest() -> None:
    shell = await with_alerts(alert())
    result = await shell.braid("describe", "alert", NAME.replace("indexer", "indexr"))
    assert (result.code, f"did you mean {NAME}?" in result.err) == (4, True)


@virtual
async def test_a_silence_needs_an_end_and_a_reason() -> None:
    shell = await with_alerts(alert())
    made = await shell.braid("silence", NAME, "--for", "2h", "--reason", "ticket 17")
    assert (made.code, made.out.startswith(f"alert/{NAME} silenced until ")) == (0, True)
    ended = await shell.braid("silence", NAME, "--end")
    assert (ended.code, ended.out) == (0, f"alert/{NAME} not silenced any more\n")
    assert shell.lagmon.silenced == [
        api.CreateSilenceRequest(alert=NAME, lasting_ms=7_200_000, reason="ticket 17"),
        api.DeleteSilenceRequest(alert=NAME),
    ]
    refused = await shell.braid("silence", NAME, "--for", "2h")
    assert (refused.code, "--reason" in refused.err) == (2, True)
    for words in (("--reason", "x"), ("--end", "--for", "2h"), ("--for", "soon", "--reason", "x")):
        assert (await shell.braid("silence", NAME, *words)).code == 2


@virtual
async def test_a_watch_shows_resolved_alerts_as_resolved() -> None:
    pending = alert(name="cluster/east/cluster-doubted", state=pb.ALERT_STATE_PENDING, fire_time_ms=0)
    shell = await with_alerts(alert(), pending)
    watching = asyncio.ensure_future(shell.braid("get", "alerts", "-w", seconds=6.0))
    await asyncio.sleep(3.0)
    over = {"state": pb.ALERT_STATE_RESOLVED, "resolve_time_ms": FIRST_MS + 9, "resolve_reason": "it is over"}
    shell.lagmon.alerts = [alert(**over)]
    lines = (await watching).out.splitlines()
    assert [line.split()[:3] for line in lines[3:]] == [[NAME, "PAGE", "RESOLVED"], [pending.name, "gone", "-"]]
    assert "it is over; it was: group indexer is 12.5 s behind" in lines[3]


@virtual
async def test_a_watch_tells_a_pending_alert_once() -> None:
    pending = alert(state=pb.ALERT_STATE_PENDING, fire_time_ms=0)
    shell = await with_alerts(pending)
    watching = asyncio.ensure_future(shell.braid("get", "alerts", "-w", "-o", "json", seconds=8.0))
    for seconds in range(5):
        await asyncio.sleep(1.0)
        shell.lagmon.alerts = [alert(state=pending.state, fire_time_ms=0, summary=f"it is {seconds} s behind")]
    shell.lagmon.alerts = [alert()]
    states = [json.loads(line)["state"] for line in (await watching).out.splitlines()]
    assert states == ["pending", "firing"]


@virtual
async def test_events_of_alerts_that_never_fired_name_their_list() -> None:
    shell = await with_alerts()
    result = await shell.braid("events", "--for", "alerts/mesh")
    assert "braid get alerts" in result.err
