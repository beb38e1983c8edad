"""Pages of all groups over a mesh: windows, what is shared between pages, and what a dead service leaves."""

import asyncio
import json
from collections.abc import Mapping
from unittest.mock import patch

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.api.assigner.v1 import group_pb2
from braid.api.lagmon.v1 import lag_pb2
from braid.kernel.errors import DeadlineExceeded, Unavailable
from braid.rpc import pages
from braid.rpc.pages import ListRequest
from console.server.limits import FEED_LINGER_SECONDS, LATE_LIST_SECONDS, READ_SECONDS, UNSEEN_SECONDS
from console.server.live.parts import Content, Single, Table
from console.server.reads import all_groups
from console.server.views import VIEWS
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual

GOOD_SECONDS = FEED_LINGER_SECONDS + 10.0
PAGE_SECONDS = READ_SECONDS - 0.2  # that a page of a list takes where it takes long


async def started(*groups: str) -> Shell:
    """A mesh with these groups, each behind by as many seconds as its name has characters."""
    shell = await Shell().start("east")
    await shell.replica("lagmon-0")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    reader = ConsoleMesh(shell).reader()
    for name in groups:
        request = api.CreateGroupRequest(name=name, spec=group_pb2.GroupSpec(streams=["logs"]))
        await reader.change("assigner", "CreateGroup", request, group_pb2.Group)
    shell.lagmon.rows = [lag_of(name, float(len(name))) for name in groups]
    return shell


def lag_of(group: str, seconds: float, stream: str = "logs") -> lag_pb2.Lag:
    """A group's lag on the lane that all read."""
    return lag_pb2.Lag(group=group, stream=stream, lane="live", lag_seconds=seconds, lag_records=int(seconds))


@virtual
async def test_a_window_has_the_order_and_the_filter_asked_for() -> None:
    browser = await ConsoleMesh(await started("a", "bbb", "cc", "other")).signed_in()
    parts = (await browser.get("/api/views/groups?sort=-lag&first=1")).json["parts"]
    assert parts["window"]["value"] == {
        "order": ["bbb", "cc", "a"], "first": 1, "matched": 4, "total": 4, "whole": True,
    }  # fmt: skip
    assert {row["key"] for row in parts["groups"]["rows"]} == {"a", "bbb", "cc"}
    assert {row["group"] for row in parts["lag"]["rows"]} == {"a", "bbb", "cc"}
    found = (await browser.get("/api/views/groups?q=oth")).json["parts"]
    assert (found["window"]["value"]["order"], found["window"]["value"]["matched"]) == (["other"], 1)
    refused = await browser.get("/api/views/groups?sort=colour")
    assert refused.json["parts"]["groups"]["error"]["field"] == "sort"


@virtual
async def test_a_change_moves_a_group_to_another_place() -> None:
    shell = await started("a", "bbb")
    browser = await ConsoleMesh(shell).signed_in()
    async with browser.stream("/api/live/groups") as stream:
        assert (await stream.next("snapshot")).data["parts"]["window"]["value"]["order"] == ["bbb", "a"]
        shell.lagmon.rows = [lag_of("a", 9.0), lag_of("bbb", 3.0)]
        begun = shell.me.host.clock.elapsed()
        orders: list[str] = []
        lags: dict[str, float] = {}
        while orders != ["a", "bbb"] or lags.get("a/logs/live") != 9.0:
            change = (await stream.next("delta")).data["parts"]
            orders = change.get("window", {}).get("value", {}).get("order", orders)
            lags |= {row["key"]: row["lag_seconds"] for row in change.get("lag", {}).get("set", ())}
        assert shell.me.host.clock.elapsed() - begun < 2.5


@virtual
async def test_pages_of_one_person_share_what_is_read() -> None:
    shell = await started("a")
    browser = await ConsoleMesh(shell).signed_in()
    await shell.me.host.clock.sleep(5.0)
    before = len(shell.lagmon.asked)
    paths = ("groups", "groups?sort=group", "groups?q=a", "streams")
    await asyncio.gather(*(browser.get(f"/api/views/{path}") for path in paths))
    whole = [each for each in shell.lagmon.asked[before:] if each.detail == lag_pb2.LAG_DETAIL_LANE]
    assert len(whole) == 1, "all of them were asked for within a moment"


@virtual
async def test_a_service_that_is_away_leaves_what_the_other_says() -> None:
    shell = await started("a", "bbb")
    browser = await ConsoleMesh(shell).signed_in()
    assert (await browser.get("/api/views/groups")).status == 200
    shell.kill("lagmon-0")
    await shell.me.host.clock.sleep(10.0)
    parts = (await browser.get("/api/views/groups")).json["parts"]
    assert (parts["groups"]["stale"], parts["lag"]["stale"]) == (False, True)
    assert parts["lag"]["error"]["status"] == 503
    assert parts["window"]["value"]["order"] == ["bbb", "a"], "the last known lag orders them"
    await shell.replica("lagmon-0")
    shell.kill("assigner-0")
    await shell.me.host.clock.sleep(20.0)
    parts = (await browser.get("/api/views/groups?first=0&sort=group")).json["parts"]
    assert (parts["groups"]["stale"], parts["lag"]["stale"]) == (True, False)
    assert {row["group"] for row in parts["lag"]["rows"]} == {"a", "bbb"}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every list counts as slow, and is good for longer than pages without viewers are read."""
    monkeypatch.setattr(all_groups, "SLOW_LIST_SECONDS", 0.0)
    monkeypatch.setattr(all_groups, "SHARED_SECONDS", GOOD_SECONDS)


@pytest.mark.usefixtures("slow")
@virtual
async def test_rows_in_sight_are_newer_than_a_slow_list() -> None:
    shell = await started("a", "bbb", "cc")
    mesh = ConsoleMesh(shell)
    browser = await mesh.signed_in()
    async with browser.stream("/api/live/groups?q=bbb") as stream:
        await stream.next("snapshot")
        before = len(shell.lagmon.asked)
        shell.lagmon.rows[1] = lag_of("bbb", 9.0)
        begun = shell.me.host.clock.elapsed()
        freeze = api.FreezeGroupRequest(group="bbb", frozen=True, reason="test")
        await mesh.reader().change("assigner", "FreezeGroup", freeze, group_pb2.Group)
        lag, frozen = 0.0, False
        while lag != 9.0 or not frozen:
            change = (await stream.next("delta")).data["parts"]
            lag = next((row["lag_seconds"] for row in change.get("lag", {}).get("set", ())), lag)
            frozen |= any("freeze" in row["rules"] for row in change.get("groups", {}).get("set", ()))
        assert shell.me.host.clock.elapsed() - begun <= 1.0
    asked = [each.filter.groups for each in shell.lagmon.asked[before:]]
    assert asked and all(each == ["bbb"] for each in asked), "the list of all is good for longer"


@pytest.mark.usefixtures("slow")
@virtual
async def test_a_page_does_not_wait_for_a_slow_list_twice() -> None:
    shell = await started("a", "bbb")
    browser = await ConsoleMesh(shell).signed_in()
    assert (await browser.get("/api/views/groups")).json["parts"]["window"]["value"]["order"] == ["bbb", "a"]
    shell.lagmon.rows = [lag_of("a", 9.0), lag_of("bbb", 3.0)]
    await shell.me.host.clock.sleep(GOOD_SECONDS + LATE_LIST_SECONDS / 2)
    shown = [(await browser.get("/api/views/groups?first=0")).json["parts"]["window"]["value"]["order"]]
    await shell.me.host.clock.sleep(0.5)
    shown.append((await browser.get("/api/views/groups?sort=-lag")).json["parts"]["window"]["value"]["order"])
    assert shown == [["bbb", "a"], ["a", "bbb"]], "first the old order, while it was read anew"
    shell.lagmon.rows = [lag_of("a", 1.0), lag_of("bbb", 3.0)]
    await shell.me.host.clock.sleep(GOOD_SECONDS + 1.0 + LATE_LIST_SECONDS)
    late = (await browser.get("/api/views/groups?sort=-lag&first=0")).json["parts"]["window"]["value"]["order"]
    assert late == ["bbb", "a"], "a page that was closed for long begins with a new list"


@virtual
async def test_rows_in_sight_wait_for_no_list_that_takes_long() -> None:
    shell = await started("a", "bbb", "cc")
    shell.lagmon.all_seconds, shell.lagmon.page_rows = PAGE_SECONDS, 1
    browser = await ConsoleMesh(shell).signed_in()
    clock = shell.me.host.clock
    async with browser.stream("/api/live/groups?q=bbb") as stream:
        await stream.next("snapshot")
        for number in range(60):  # several lists of three pages begin and end meanwhile
            await clock.sleep(0.7 * PAGE_SECONDS)
            shell.lagmon.rows[1] = lag_of("bbb", 100.0 + number)
            begun, lag = clock.elapsed(), 0.0
            while lag != 100.0 + number:
                change = (await stream.next("delta")).data["parts"]
                lag = next((row["lag_seconds"] for row in change.get("lag", {}).get("set", ())), lag)
            assert clock.elapsed() - begun <= 1.0
    assert sum(each.page_token == "2" for each in shell.lagmon.asked) >= 3


@virtual
async def test_rows_in_sight_are_told_where_the_list_of_all_is_not() -> None:
    shell = await started("a", "bbb")
    shell.lagmon.all_refused = DeadlineExceeded("very many groups")
    browser = await ConsoleMesh(shell).signed_in()
    lag = (await browser.get("/api/views/groups")).json["parts"]["lag"]
    assert (lag["stale"], {row["group"] for row in lag["rows"]}) == (False, {"a", "bbb"})
    nothing = (await browser.get("/api/views/groups?q=no-such-group")).json["parts"]["lag"]
    assert nothing["error"]["status"] == 504, "no row is in sight, so the list's error is told"
    shell.lagmon.refusal = Unavailable("away")
    await shell.me.host.clock.sleep(10.0)
    assert (await browser.get("/api/views/groups?sort=group")).json["parts"]["lag"]["error"]["status"] == 503


@virtual
async def test_a_first_page_does_not_wait_for_the_lag_of_all() -> None:
    shell = await started("a", "bbb")
    shell.lagmon.all_seconds = 1.5
    browser = await ConsoleMesh(shell).signed_in()
    begun = shell.me.host.clock.elapsed()
    parts = (await browser.get("/api/views/groups")).json["parts"]
    assert shell.me.host.clock.elapsed() - begun < 1.0
    window = parts["window"]["value"]
    assert (window["order"], window["whole"]) == (["a", "bbb"], False), "their lag is not known yet"
    assert {row["group"]: row["lag_seconds"] for row in parts["lag"]["rows"]} == {"a": 1.0, "bbb": 3.0}
    await shell.me.host.clock.sleep(5.0)
    window = (await browser.get("/api/views/groups")).json["parts"]["window"]["value"]
    assert (window["order"], window["whole"]) == (["bbb", "a"], True)


@virtual
async def test_a_first_page_shows_the_groups_read_so_far() -> None:
    shell = await started("a", "bbb", "cc")
    reader = ConsoleMesh(shell).reader()
    ask = reader.one

    async def slow(service: str, method: str, request: ListRequest, *others: object, **more: object) -> object:
        if method == "ListGroups" and request.page_token:
            await shell.me.host.clock.sleep(3.0)
        return await ask(service, method, request, *others, **more)  # type: ignore[arg-type]

    read, begun = VIEWS["groups"].view({}).reads[0], shell.me.host.clock.elapsed()
    with patch.object(reader, "one", slow), patch.object(pages, "PAGE_SIZE_MAX", 2):
        assert shown(await read.take(reader, {})) == (["a", "bbb"], True)
        assert shell.me.host.clock.elapsed() - begun < 1.0
        counts = (await all_groups.group_counts().take(reader, {}))["group_counts"]
        assert isinstance(counts, Single) and counts.value, "it is known"
        assert counts.value["groups"] == 3, "a number of all waits for all"
        assert shown(await read.take(reader, {})) == (["a", "bbb", "cc"], False)
    await reader.close()


def shown(parts: Mapping[str, Content]) -> tuple[list[str], bool]:
    """The groups that a page shows, in the order of their names, and whether there are more."""
    groups = parts["groups"]
    assert isinstance(groups, Table)
    return sorted(groups.rows), groups.more


@pytest.mark.usefixtures("slow")
@virtual
async def test_a_group_cut_by_the_page_is_shown_as_in_the_list() -> None:
    shell = await started("a", "bbb")
    shell.lagmon.rows = [lag_of("a", 1.0), lag_of("bbb", 2.0), lag_of("bbb", 3.0, stream="other")]
    browser = await ConsoleMesh(shell).signed_in()
    await browser.get("/api/views/groups")
    shell.lagmon.page_rows = 2
    rows = (await browser.get("/api/views/groups?sort=group")).json["parts"]["lag"]["rows"]
    assert sorted(row["lag_seconds"] for row in rows) == [1.0, 2.0, 3.0]


@virtual
async def test_streams_have_their_worst_lag_and_their_readers() -> None:
    shell = await started("a", "bbb")
    shell.lagmon.rows.append(lag_of("strange", 2.0, stream="gone"))
    browser = await ConsoleMesh(shell).signed_in()
    rows = (await browser.get("/api/views/streams")).json["parts"]["lag"]["rows"]
    assert {(row["stream"], row["group"], row["groups"]) for row in rows} == {
        ("logs", "bbb", 2),
        ("gone", "strange", 1),
    }


@virtual
async def test_all_that_match_are_exported() -> None:
    names = [f"g{number:03d}" for number in range(450)]
    shell = await started(*names[:3])
    shell.lagmon.rows = [lag_of(name, 1.0) for name in names]
    browser = await ConsoleMesh(shell).signed_in()
    answer = await browser.get("/api/groups?sort=group")
    found = json.loads(answer.body)
    assert (answer.status, found["order"]) == (200, names)
    assert [each["name"] for each in found["groups"]] == names[:3]
    assert [each["group"] for each in found["lag"]] == names
    assert json.loads((await browser.get("/api/groups?q=g001")).body)["order"] == ["g001"]
    assert (await ConsoleMesh(shell).browser().get("/api/groups")).status == 401


@virtual
async def test_groups_that_nobody_looks_at_are_forgotten() -> None:
    shell = await started("a")
    console = ConsoleMesh(shell)
    first, second = console.reader(), console.reader()
    for view, reader in (("groups", first), ("groups", second)):
        await VIEWS[view].view({}).reads[0].take(reader, {})
    before = len(shell.lagmon.asked)
    await shell.me.host.clock.sleep(UNSEEN_SECONDS + 1.0)
    await VIEWS["groups"].view({}).reads[0].take(second, {})
    assert len(shell.lagmon.asked) == before, "the lag that is known orders them until its own part is read"
    await VIEWS["groups"].view({}).reads[0].take(first, {})
    assert len(shell.lagmon.asked) == before + 1, "all of it was forgotten, and is read again"
    await first.close()
    await second.close()
