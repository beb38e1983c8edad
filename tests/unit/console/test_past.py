"""Pages as of a moment: what was shown then is shown again, and what nobody kept is absent and says so."""

from typing import Any, Final
from unittest.mock import patch

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.api.lagmon.v1 import lag_history_pb2, lag_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as lagmon_api
from braid.archive.memory import MemoryArchive
from braid.runtime.histories import fold
from console.server.reads.past import lag_at
from console.server.views import VIEWS
from tests.support.browser import Browser
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual

_MEASURED: Final = (
    "evidence",
    "load",
    "registry_revision",
    "idle_left_ms",
    "idle_held",
)  # looked at now and then, and not recorded as such
_INTERVAL_EVENTS: Final = 4  # after so many events a snapshot is due; 512 in real life
_PAGES: Final = {
    "overview": ("clusters", "streams", "group_counts"),
    "streams": ("streams",),
    "clusters": ("clusters",),
    "groups": ("groups",),
    "stream?name=logs": ("stream", "groups", "clusters"),
    "cluster?name=east": ("cluster", "channels"),
    "group?name=readers": ("group", "leases"),
}


async def shown(browser: Browser, page: str, at_ms: int = 0) -> dict[str, Any]:
    """The parts of a page, now or as of a moment."""
    joint = "&" if "?" in page else "?"
    answer = await browser.get(f"/api/views/{page}{f'{joint}at_ms={at_ms}' if at_ms else ''}")
    assert answer.status == 200, answer
    parts: dict[str, Any] = answer.json["parts"]
    return parts


def recorded(part: dict[str, Any]) -> object:
    """Rows of a part, without what histories do not record."""
    rows = part["rows"] if part["kind"] == "table" else [part["value"]]
    assert all(rows), part
    for row in rows:
        for name in _MEASURED:
            row.get("status", {}).pop(name, None)
        for channel in row.get("status", {}).get("channels", []):
            channel.pop("drain_holders", None)
    return rows


async def started() -> Shell:
    """A mesh of two clusters, a stream and a group."""
    shell = Shell()
    shell.archives = {name: MemoryArchive() for name in ("registry-0", "assigner-0")}
    await shell.start("east", "west")
    await shell.replica("lagmon-0")
    await shell.replica("dlq-0")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2", "--clusters", "east,west")).code == 0
    spec = group_pb2.GroupSpec(streams=["logs"], ownership=group_pb2.OWNERSHIP_AT_LEAST_ONCE)
    request = api.CreateGroupRequest(name="readers", spec=spec)
    await ConsoleMesh(shell).reader().change("assigner", "CreateGroup", request, group_pb2.Group, "make-readers")
    await shell.me.host.clock.sleep(5.0)
    return shell


@patch.object(fold, "SNAPSHOT_EVERY_EVENTS", _INTERVAL_EVENTS)
@virtual
async def test_pages_of_a_moment_show_what_they_showed_then() -> None:
    shell = await started()
    browser = await ConsoleMesh(shell).signed_in()
    at_ms = shell.me.host.clock.now_ms()
    then = {page: await shown(browser, page) for page in _PAGES}
    await shell.me.host.clock.sleep(1.0)
    for number in range(4 * _INTERVAL_EVENTS):  # what happened before is archived, and compacted
        verb = "uncordon" if number % 2 else "cordon"
        assert (await shell.braid(verb, "cluster", "east")).code == 0
    assert (await shell.braid("move", "stream", "logs", "--to", "west")).code == 0
    assert (await shell.braid("create", "stream", "orders", "--lane", "live=1")).code == 0
    assert (await shell.braid("delete", "group", "readers", "--yes")).code == 0
    await shell.me.host.clock.sleep(30.0)
    for page, names in _PAGES.items():
        again = await shown(browser, page, at_ms)
        for name in names:
            assert recorded(again[name]) == recorded(then[page][name]), (page, name)
        assert not any(part["rows"] for name, part in again.items() if name.startswith("unknown_")), page
    objects = shell.archives["registry-0"].objects
    assert any(name.startswith("registry/cluster/east/") and name.endswith(".seg") for name in objects)
    numbers = (await shown(browser, "overview", at_ms))["summary"]["value"]
    assert (numbers["streams"], numbers["groups"], numbers["alerts_firing"]) == (1, 1, None)
    events = (await shown(browser, "events", at_ms))["events"]["rows"]
    assert events and max(row["time_ms"] for row in events) <= at_ms


@virtual
async def test_a_page_before_all_is_empty_and_the_future_is_refused() -> None:
    shell = Shell()
    at_ms = shell.me.host.clock.now_ms()
    await shell.me.host.clock.sleep(1.0)
    await shell.start("east")
    browser = await ConsoleMesh(shell).signed_in()
    early = await shown(browser, "clusters", at_ms)
    assert (early["clusters"]["rows"], early["clusters"]["error"]) == ([], None)
    missing = (await shown(browser, "cluster?name=east", at_ms))["cluster"]
    assert missing["value"] is None
    assert "no cluster east at that moment" in missing["error"]["message"]
    for ahead_ms in (5_000, 60_000):  # services would take the first for a clock that differs
        late = (await shown(browser, "clusters", shell.me.host.clock.now_ms() + ahead_ms))["clusters"]
        assert (late["error"]["status"], late["error"]["field"]) == (400, "at_ms")


@virtual
async def test_what_nobody_kept_says_so() -> None:
    shell = await started()
    shell.lagmon.rows = [lag_pb2.Lag(group="readers", stream="logs", lane="live", lag_seconds=7.5)]
    browser = await ConsoleMesh(shell).signed_in()
    at_ms = shell.me.host.clock.now_ms()
    shell.lagmon.history = lagmon_api.ListLagHistoryResponse(step_ms=10_000, kept_since_ms=at_ms + 1)
    await shell.me.host.clock.sleep(1.0)
    kept = ("overview", "streams", "stream", "groups", "group", "lease", "clusters", "cluster", "events", "search")
    for view in VIEWS.keys() - set(kept):
        query = "?name=none" if view == "dead-letter" else ""
        parts = await shown(browser, f"{view}{query}", at_ms)
        assert {part["error"]["reason"] for part in parts.values()} == {"HISTORY_HOLE"}, view
    for page in ("streams", "groups", "overview", "stream?name=logs"):
        lag = (await shown(browser, page, at_ms))["lag"]
        assert (lag["rows"], lag["error"]["reason"]) == ([], "HISTORY_HOLE"), page
        assert "not kept" in lag["error"]["message"]
    worst = (await shown(browser, "overview", at_ms))["summary"]["value"]["worst_lag_seconds"]
    assert worst is None, "neither 0 nor the value of today"


@virtual
async def test_lag_of_a_moment_is_that_of_the_last_step_that_had_ended() -> None:
    shell = await started()
    at_ms = shell.me.host.clock.now_ms()
    begun = at_ms - at_ms % 10_000 - 10_000
    steps = [
        lag_history_pb2.LagStep(time_ms=begun + place * 10_000, lag_seconds=seconds, lag_records=3)
        for place, seconds in enumerate((2.5, 99.0))
    ]
    history = lag_history_pb2.LagHistory(group="readers", stream="logs", lane="live", steps=steps)
    shell.lagmon.history = lagmon_api.ListLagHistoryResponse(histories=[history], step_ms=10_000, kept_since_ms=1)
    browser = await ConsoleMesh(shell).signed_in()
    row = (await shown(browser, "groups", at_ms))["lag"]["rows"][0]
    assert (row["key"], row["lag_seconds"], row["as_of_ms"]) == ("readers/logs/live", 2.5, begun)
    assert lag_at(history, begun + 9_999, 10_000) is None, "no step had ended"
    assert lag_at(history, begun + 45_000, 10_000) is None, "what is older is not of then"


@virtual
async def test_the_past_is_read_once() -> None:
    shell = await started()
    shell.lagmon.history = lagmon_api.ListLagHistoryResponse(step_ms=10_000, kept_since_ms=1)
    browser = await ConsoleMesh(shell).signed_in()
    at_ms = shell.me.host.clock.now_ms()
    async with browser.stream(f"/api/live/groups?at_ms={at_ms}") as stream:
        await stream.next("snapshot")
        await shell.me.host.clock.sleep(10.0)
    assert len(shell.lagmon.history_asked) == 1
