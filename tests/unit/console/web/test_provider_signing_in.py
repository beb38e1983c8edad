"""Signing in with a provider: the way there and back, and what a hostile provider, site or browser cannot do."""

from typing import Final
from urllib.parse import parse_qs, urlsplit

from braid.kernel.errors import Unauthenticated, Unavailable
from braid.runtime.access.settings import AccessMode, AccessSettings
from console.server.limits import LOGIN_SECONDS, LOGINS_PER_BROWSER_MAX
from console.server.oidc.provider import Provider
from console.server.oidc.settings import BearerKind, OidcSettings
from tests.support.browser import Browser
from tests.support.console_mesh import COOKIE, PORT, ConsoleMesh
from tests.support.oidc_provider import CLIENT, HOME, SETTINGS, MemoryProvider
from tests.support.provider_console import ProviderConsole
from tests.support.token_issuer import ISSUER
from tests.unit.cli.mesh import Shell, virtual

LOGIN: Final = f"braid_login_{PORT}"
ROOT: Final = "spiffe://braid.local/user/root"


@virtual
async def test_a_person_signs_in_and_acts_with_their_own_rights() -> None:
    shell = Shell()
    shell.access = AccessSettings(AccessMode.ENFORCED, frozenset({ROOT}))
    shell.principals |= {"cli": ROOT, "person ada": "jwt:ada"}
    await shell.start("east")
    provider = MemoryProvider(shell.me.host.clock.now_ms)
    mesh = ConsoleMesh(shell, ("oidc",), provider=Provider(SETTINGS, provider, shell.me.host))
    browser = mesh.browser()
    strange = (await browser.get("/api/session")).json
    assert (strange["sign_in"], strange["provider"]) == (["oidc"], "Example")
    begun = await browser.get("/oidc/start?to=/streams/logs")
    answer = await browser.get(provider.authorize(begun.headers["location"]))
    assert (answer.status, answer.headers["location"]) == (303, "/streams/logs")
    session = (await browser.get("/api/session")).json
    assert (session["principal"], session["how"]) == ("jwt:ada", "oidc")
    browser.csrf = session["csrf"]
    refused = await browser.post("/api/actions/cordon", {"cluster": "east"})
    assert refused.status == 403 and "jwt:ada" in refused.json["error"]["message"]
    assert (await shell.braid("grant", "admin", "--to", "jwt:ada")).code == 0
    assert (await browser.post("/api/actions/cordon", {"cluster": "east"})).status == 200


@virtual
async def test_the_request_has_a_challenge_and_no_secret() -> None:
    home = ProviderConsole()
    url = await home.begun(home.browser())
    asked = {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}
    home.provider.authorize(url)
    form = home.provider.asked[-1].form or {}
    assert (asked["scope"], asked["tenant"]) == ("openid", "one")
    assert set(asked) == {
        *("client_id", "code_challenge", "code_challenge_method", "nonce", "redirect_uri", "response_type"),
        *("scope", "state", "tenant"),
    }
    assert "code_verifier" not in form
    other = parse_qs(urlsplit(await home.begun(home.browser())).query)
    assert all(other[name] != [asked[name]] for name in ("state", "nonce", "code_challenge"))


@virtual
async def test_cookies_are_of_two_kinds_and_the_lax_one_goes() -> None:
    home = ProviderConsole()
    browser = home.browser()
    begun = await browser.get("/oidc/start")
    [lax] = begun.cookies
    assert {f"Max-Age={int(LOGIN_SECONDS)}", "HttpOnly", "SameSite=lax", "Path=/"} <= set(lax.split("; "))
    done = await browser.get(home.provider.authorize(begun.headers["location"]))
    assert LOGIN not in browser.cookies
    strict = next(each for each in done.cookies if each.startswith(COOKIE))
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(strict.split("; "))


@virtual
async def test_another_browser_cannot_finish_a_sign_in() -> None:
    """Login CSRF: a victim's browser is sent to the end of somebody else's sign-in."""
    home = ProviderConsole()
    attacker, victim = home.browser(), home.browser()
    back = home.provider.authorize(await home.begun(attacker))
    for browser in (victim, await _begun_one_too(home)):
        answer = await browser.get(back)
        assert answer.headers["location"] == "/?sign_in=unknown_login"
        assert COOKIE not in browser.cookies
    assert not [each for each in home.provider.asked if each.form]
    assert (await attacker.get(back)).headers["location"] == "/streams/logs?q=a"


async def _begun_one_too(home: ProviderConsole) -> Browser:
    browser = home.browser()
    await home.begun(browser)
    return browser


@virtual
async def test_an_answer_counts_once() -> None:
    home = ProviderConsole()
    browser = home.browser()
    back = home.provider.authorize(await home.begun(browser))
    kept = dict(browser.cookies)
    assert (await browser.get(back)).headers["location"] == "/streams/logs?q=a"
    browser.cookies = kept
    assert (await browser.get(back)).headers["location"] == "/?sign_in=unknown_login"
    assert len([each for each in home.provider.asked if each.form]) == 1


@virtual
async def test_a_code_of_another_sign_in_is_refused_by_its_verifier() -> None:
    home = ProviderConsole()
    victim, attacker = home.browser(), home.browser()
    stolen = parse_qs(urlsplit(home.provider.authorize(await home.begun(victim))).query)["code"][0]
    state = parse_qs(urlsplit(await home.begun(attacker)).query)["state"][0]
    await attacker.get(f"/oidc/callback?code={stolen}&state={state}")
    assert "invalid_grant" in (await home.told(attacker))["message"]


@virtual
async def test_a_sign_in_is_over_after_ten_minutes() -> None:
    home = ProviderConsole()
    browser = home.browser()
    back = home.provider.authorize(await home.begun(browser))
    await home.clock.sleep(LOGIN_SECONDS)
    assert (await browser.get(back)).headers["location"] == "/?sign_in=unknown_login"


@virtual
async def test_two_tabs_sign_in_beside_each_other() -> None:
    home = ProviderConsole()
    browser = home.browser()
    first = home.provider.authorize(await home.begun(browser, "/groups"))
    second = home.provider.authorize(await home.begun(browser, "/alerts"))
    assert (await browser.get(first)).headers["location"] == "/groups"
    assert (await browser.get(second)).headers["location"] == "/alerts"
    assert LOGIN not in browser.cookies


@virtual
async def test_one_browser_begins_a_bounded_number() -> None:
    home = ProviderConsole()
    browser = home.browser()
    backs = [home.provider.authorize(await home.begun(browser)) for _ in range(LOGINS_PER_BROWSER_MAX + 1)]
    assert (await browser.get(backs[0])).headers["location"] == "/?sign_in=unknown_login"
    assert (await browser.get(backs[1])).headers["location"] == "/streams/logs?q=a"


@virtual
async def test_a_sign_in_leads_to_a_page_of_the_console_alone() -> None:
    home = ProviderConsole()
    foreign = (
        "//evil.example/x",
        "https://evil.example",
        "/\\evil.example",
        "/a\r\nset-cookie: x",
        "javascript:alert(1)",
    )
    circles = ("/oidc/start?to=/", "/sign-in/x", "/api/session")
    for to in (*foreign, *circles, "/" + "x" * 2_000, ""):
        assert (await home.sign_in(home.browser(), to)).headers["location"] == "/", to


@virtual
async def test_other_sites_begin_nothing_unseen() -> None:
    home = ProviderConsole()
    for headers in ({"sec-fetch-mode": "no-cors"}, {"sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}):
        assert (await home.browser().get("/oidc/start", headers)).status == 403
    assert home.provider.asked == []


@virtual
async def test_a_browser_at_another_name_is_moved_first() -> None:
    home = ProviderConsole()
    browser = Browser(home.console.app, "localhost:7480")
    moved = (await browser.get("/oidc/start?to=%2Fgroups")).headers["location"]
    assert moved == f"{HOME}/oidc/start?moved=1&to=%2Fgroups"
    still = await browser.get(moved.removeprefix(HOME))  # a proxy that writes another name: no circle
    assert still.headers["location"].startswith(ISSUER)


@virtual
async def test_a_token_that_the_mesh_refuses_signs_nobody_in() -> None:
    home = ProviderConsole()
    errors = (
        (Unauthenticated("another audience"), 401, "BRAID_TOKEN_AUDIENCE"),
        (Unavailable("x"), 503, ""),
    )
    for error, status, remedy in errors:
        browser = home.browser()
        home.refusal = error
        await home.sign_in(browser)
        assert COOKIE not in browser.cookies
        problem = await home.told(browser)
        assert problem["status"] == status and remedy in problem["remedy"]


@virtual
async def test_signing_out_ends_the_session_and_leads_to_the_provider() -> None:
    home = ProviderConsole()
    browser = home.browser()
    await home.sign_in(browser)
    browser.csrf = (await browser.get("/api/session")).json["csrf"]
    answer = await browser.send("DELETE", "/api/session", b"")
    asked = parse_qs(urlsplit(answer.json["sign_out"]).query)
    assert answer.json["sign_out"].startswith(f"{ISSUER}/end?")
    assert (asked["post_logout_redirect_uri"], asked["client_id"]) == ([f"{HOME}/"], [CLIENT])
    assert asked["id_token_hint"][0].count(".") == 2
    assert COOKIE not in browser.cookies
    assert not (await browser.get("/api/session")).json["signed_in"]


@virtual
async def test_a_provider_without_an_address_for_it_is_left_alone() -> None:
    home = ProviderConsole()
    del home.provider.document["end_session_endpoint"]
    browser = home.browser()
    await home.sign_in(browser)
    browser.csrf = (await browser.get("/api/session")).json["csrf"]
    assert (await browser.send("DELETE", "/api/session", b"")).status == 204


@virtual
async def test_id_tokens_are_sent_where_access_tokens_are_opaque() -> None:
    home = ProviderConsole(OidcSettings(ISSUER, CLIENT, SETTINGS.redirect_uri, bearer=BearerKind.ID))
    home.provider.answer = {"access_token": "opaque"}
    browser = home.browser()
    await home.sign_in(browser)
    assert (await browser.get("/api/session")).json["principal"] == "jwt:ada"
