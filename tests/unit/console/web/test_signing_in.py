"""Signing in by links and tokens, and what a request must show to read or to change something."""

import pytest

from braid.host.console_links import make_link
from braid.runtime.access.settings import AccessMode, AccessSettings
from tests.support.browser import Browser
from tests.support.console_mesh import COOKIE, ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual

ADA = "spiffe://braid.local/user/ada"


@virtual
async def test_a_link_signs_in_once() -> None:
    mesh = ConsoleMesh(await Shell().start("east"))
    link = mesh.link()
    first, second = mesh.browser(), mesh.browser()
    answer = await first.get(f"/sign-in/{link}?to=/streams/logs")
    assert (answer.status, answer.headers["location"]) == (303, "/streams/logs")
    assert (await first.get("/api/session")).json["signed_in"]
    again = await second.get(f"/sign-in/{link}")
    assert again.headers["location"] == "/?sign_in=used"
    assert "set-cookie" not in again.headers
    assert not (await second.get("/api/session")).json["signed_in"]


@virtual
async def test_a_link_that_is_old_or_forged_signs_nobody_in() -> None:
    mesh = ConsoleMesh(await Shell().start("east"))
    now_ms = mesh.shell.me.host.clock.now_ms()
    links = {
        mesh.link(-1.0): "expired",
        mesh.link(3_600.0): "expired",
        make_link(b"x" * 32, now_ms + 60_000): "unknown",
        mesh.link()[:-2] + "AA": "unknown",
        "a" * 5_000: "unknown",
    }
    for link, verdict in links.items():
        answer = await mesh.browser().get(f"/sign-in/{link}")
        assert answer.headers["location"] == f"/?sign_in={verdict}", link


@virtual
async def test_links_count_only_where_they_are_a_way_in() -> None:
    mesh = ConsoleMesh(await Shell().start("east"), ways=("token",))
    answer = await mesh.browser().get(f"/sign-in/{mesh.link()}")
    assert answer.headers["location"] == "/?sign_in=unknown"


@pytest.mark.parametrize("to", ["//evil.example/x", "https://evil.example", "/\\evil.example", "x", "/a%0d%0ab"])
def test_a_link_leads_to_no_other_site(to: str) -> None:
    @virtual
    async def run() -> None:
        mesh = ConsoleMesh(await Shell().start("east"))
        answer = await mesh.browser().get(f"/sign-in/{mesh.link()}?to={to}")
        assert answer.headers["location"] == "/"

    run()


@virtual
async def test_a_cookie_is_kept_from_scripts_and_sites() -> None:
    mesh = ConsoleMesh(await Shell().start("east"))
    answer = await mesh.browser().get(f"/sign-in/{mesh.link()}")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {each.strip() for each in cookie.split(";")}
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"


@virtual
async def test_a_session_ends_when_it_is_closed() -> None:
    mesh = ConsoleMesh(await Shell().start("east"))
    browser, other = await mesh.signed_in(), await mesh.signed_in()
    assert (await browser.send("DELETE", "/api/session", b"")).status == 204
    assert (await browser.get("/api/views/clusters")).status == 401
    assert (await other.get("/api/views/clusters")).status == 200


@virtual
async def test_nothing_of_the_mesh_is_shown_to_strangers() -> None:
    mesh = ConsoleMesh(await Shell().start("east"))
    paths = ("views/clusters", "live/clusters", "why", "search", "can", "history", "events", "actions")
    for path in paths:
        answer = await mesh.browser().get(f"/api/{path}")
        assert (answer.status, answer.json["error"]["reason"]) == (401, "UNAUTHENTICATED"), path
    for path in ("actions/cordon", "actions/cordon/cli"):
        assert (await mesh.browser().post(f"/api/{path}", {"cluster": "east"})).status == 401


@virtual
async def test_a_change_needs_what_our_own_page_knows() -> None:
    mesh = ConsoleMesh(await Shell().start("east"))
    browser = await mesh.signed_in()
    body = {"cluster": "east"}
    assert (await browser.post("/api/actions/cordon", body, {"x-braid-csrf": ""})).status == 403
    assert (await browser.post("/api/actions/cordon", body, {"x-braid-csrf": "é"})).status == 403
    assert (await browser.post("/api/actions/cordon", body, {"origin": "https://evil.example"})).status == 403
    assert (await browser.post("/api/actions/cordon", body, {"sec-fetch-site": "cross-site"})).status == 403
    assert (await browser.post("/api/actions/cordon", body, {"content-type": "text/plain"})).status == 400
    assert "cordoned" not in (await mesh.shell.braid("get", "clusters")).out.lower().replace("not cordoned", "")
    own = {"origin": f"http://{browser.host}", "sec-fetch-site": "same-origin"}
    assert (await browser.post("/api/actions/cordon", body, own)).status == 200


@virtual
async def test_a_request_that_names_another_host_is_refused() -> None:
    mesh = ConsoleMesh(await Shell().start("east"))
    signed_in = await mesh.signed_in()
    for host in ("evil.example", "evil.example:7480", "127.0.0.1.evil.example", ""):
        browser = Browser(mesh.console.app, host)
        browser.cookies = signed_in.cookies
        assert (await browser.get("/api/views/clusters")).status == 421, host
    for host in ("localhost:7480", "127.0.0.1", "[::1]:7480", "LOCALHOST"):
        browser = Browser(mesh.console.app, host)
        browser.cookies = signed_in.cookies
        assert (await browser.get("/api/views/clusters")).status == 200, host


@virtual
async def test_a_body_is_bounded_and_must_be_an_object() -> None:
    browser = await ConsoleMesh(await Shell().start("east")).signed_in()
    for data, status in ((b"[" * 60_000, 400), (b"[]", 400), (b"\xff", 400), (b'{"a": "' + b"x" * 70_000, 429)):
        assert (await browser.send("POST", "/api/actions/cordon", data)).status == status, data[:10]


@virtual
async def test_a_token_acts_as_the_person_it_names() -> None:
    shell = Shell()
    shell.access = AccessSettings(AccessMode.ENFORCED, frozenset({ADA}))
    shell.principals["cli"] = ADA
    await shell.start("east")
    mesh = ConsoleMesh(shell)
    eve = await mesh.person("eve", "jwt:eve")
    session = (await eve.get("/api/session")).json
    assert (session["principal"], session["how"]) == ("jwt:eve", "token")
    refused = await eve.post("/api/actions/cordon", {"cluster": "east"})
    assert refused.status == 403 and "jwt:eve" in refused.json["error"]["message"]
    assert refused.json["cli"] == "braid cordon cluster east"
    ada = await mesh.person("ada", ADA)
    assert (await ada.post("/api/actions/cordon", {"cluster": "east"})).status == 200
    listed = (await ada.get("/api/events?history=cluster/east")).json["events"]
    assert listed[0]["actor"] == ADA


@virtual
async def test_tokens_are_taken_only_where_they_are_a_way_in() -> None:
    mesh = ConsoleMesh(await Shell().start("east"), ways=("link",))
    answer = await mesh.browser().post("/api/session", {"token": "x"})
    assert (answer.status, answer.json["error"]["reason"]) == (501, "UNSUPPORTED")
