"""Providers that lie, fail or hang sign nobody in, and what they did is told with a remedy."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qs, quote, urlsplit

import pytest

from console.server.limits import METADATA_PAUSE_SECONDS
from console.server.oidc.http import HttpAnswer
from tests.support.console_mesh import COOKIE, PORT
from tests.support.oidc_provider import CLIENT
from tests.support.provider_console import ProviderConsole
from tests.support.token_issuer import ISSUER
from tests.unit.cli.mesh import virtual

LOGIN: Final = f"braid_login_{PORT}"
ROOT: Final = "spiffe://braid.local/user/root"


_REFUSED: Final[Mapping[str, tuple[dict[str, object], str]]] = {
    "nonce": ({"nonce": "of-another-sign-in"}, "belongs to another sign-in"),
    "no nonce": ({"nonce": None}, "belongs to another sign-in"),
    "issuer": ({"iss": "https://evil.example"}, "another issuer"),
    "audience": ({"aud": "another-client"}, "another audience"),
    "several audiences": ({"aud": [CLIENT, "other"]}, "does not say for whom"),
    "party": ({"aud": [CLIENT, "other"], "azp": "other"}, "for another client"),
    "over": ({"exp": 1_000}, "expired"),
    "no end": ({"exp": None}, "no time as claim 'exp'"),
    "not yet": ({"nbf": 9_999_999_999}, "not valid yet"),
    "no person": ({"sub": None}, "no text as claim 'sub'"),
    "access token": ({"at_hash": "AAAA"}, "another access token"),
}


@virtual
async def test_an_id_token_that_is_wrong_signs_nobody_in() -> None:
    home = ProviderConsole()
    for case, (claims, said) in _REFUSED.items():
        browser = home.browser()
        home.provider.claims = claims
        answer = await home.sign_in(browser)
        assert answer.headers["location"] == "/streams/logs?q=a"
        assert COOKIE not in browser.cookies, case
        problem = await home.told(browser)
        assert said in problem["message"] and problem["remedy"], case
        assert ("clocks" in problem["remedy"]) is (case in ("over", "not yet")), case


def _unsigned(token: str) -> str:
    head = "eyJhbGciOiJub25lIn0"
    return f"{head}.{token.split('.')[1]}."


def _shared_secret(token: str) -> str:
    head = "eyJhbGciOiJIUzI1NiIsImtpZCI6Im9uZSJ9"
    return f"{head}.{token.split('.')[1]}.{'A' * 43}"


_FORGERIES: Final[Mapping[str, Callable[[str], str]]] = {
    "unsigned": _unsigned,
    "shared secret": _shared_secret,
    "changed": lambda token: token[:-4] + ("AAAA" if token[-4:] != "AAAA" else "BBBB"),
    "opaque": lambda token: "opaque",
}


@virtual
async def test_a_forged_id_token_signs_nobody_in() -> None:
    home = ProviderConsole()
    for case, forge in _FORGERIES.items():
        browser = home.browser()
        url = await home.begun(browser)
        back = home.provider.authorize(url)
        home.provider.nonce = parse_qs(urlsplit(url).query)["nonce"][0]
        home.provider.answer = {"access_token": "a.b.c", "id_token": forge(home.provider.id_token("a.b.c"))}
        await browser.get(back)
        assert COOKIE not in browser.cookies, case
        assert "ID token is not taken" in (await home.told(browser))["message"], case


_ANSWERS: Final[Mapping[str, tuple[dict[str, object], str, str]]] = {
    "opaque": ({"access_token": "gAAAA.opaque"}, "access token is opaque", "BRAID_CONSOLE_OIDC_RESOURCE"),
    "no id token": ({"id_token": None}, "no ID token", "BRAID_CONSOLE_OIDC_SCOPES"),
    "no access token": ({"access_token": ""}, "access_token is out of form", "sign in again"),
    "kind": ({"token_type": "mac"}, "no bearer tokens", "client"),
    "lifetime": ({"expires_in": "soon"}, "sound lifetime", "sign in again"),
    "huge": ({"refresh_token": "x" * 20_000}, "refresh_token is out of form", "sign in again"),
    "hostile": ({"refresh_token": "a\r\nb"}, "refresh_token is out of form", "sign in again"),
}


@virtual
async def test_tokens_out_of_form_are_told_with_a_remedy() -> None:
    home = ProviderConsole()
    home.provider.claims = {"at_hash": None}
    for case, (answer, said, remedy) in _ANSWERS.items():
        browser = home.browser()
        home.provider.answer = answer
        await home.sign_in(browser)
        problem = await home.told(browser)
        assert said in problem["message"] and remedy in problem["remedy"], case


_OUTAGES: Final[Mapping[str, HttpAnswer]] = {
    "503": HttpAnswer(503, b""),
    "html": HttpAnswer(200, b"<html>"),
    "redirect": HttpAnswer(302, b"{}"),
    "deep": HttpAnswer(200, b"[" * 100_000),
}


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/keys"])
def test_a_provider_with_trouble_is_told_and_may_return(path: str) -> None:
    @virtual
    async def run() -> None:
        home = ProviderConsole()
        for case, trouble in _OUTAGES.items():
            browser = home.browser()
            home.provider.raw[path] = trouble
            answer = await browser.get("/oidc/start?to=/groups")
            if path != "/.well-known/openid-configuration":
                answer = await browser.get(home.provider.authorize(answer.headers["location"]))
            assert (answer.status, answer.headers["location"]) == (303, "/groups"), case
            problem = await home.told(browser)
            assert "provider" in problem["message"] or "issuer" in problem["message"]
            assert problem["remedy"], case
            await home.clock.sleep(10.0)
        home.provider.raw.clear()
        assert (await home.sign_in(browser)).headers["location"] == "/streams/logs?q=a"
        assert (await browser.get("/api/session")).json["signed_in"]

    run()


@virtual
async def test_all_who_wait_for_a_hanging_provider_share_one_answer() -> None:
    home = ProviderConsole()
    home.provider.away, home.provider.pause = True, lambda: home.clock.sleep(8.0)
    browsers = [home.browser() for _ in range(20)]
    begun = home.clock.elapsed()
    await asyncio.gather(*(each.get("/oidc/start") for each in browsers))
    assert home.clock.elapsed() - begun < 9.0
    assert len(home.provider.asked) == 1
    assert "cannot be reached" in (await home.told(browsers[-1]))["message"]


_DOCUMENTS: Final[Mapping[str, tuple[dict[str, object], str]]] = {
    "issuer": ({"issuer": "https://evil.example"}, "calls itself 'https://evil.example'"),
    "slash": ({"issuer": f"{ISSUER}/"}, "calls itself"),
    "plain": ({"authorization_endpoint": "http://id.test/a"}, "is not https"),
    "script": ({"authorization_endpoint": "javascript:alert(1)"}, "is no URL"),
    "no pkce": ({"code_challenge_methods_supported": ["plain"]}, "no PKCE with S256"),
    "no keys": ({"jwks_uri": None}, "names no jwks_uri"),
    "number": ({"token_endpoint": 7}, "names no token_endpoint"),
}


@virtual
async def test_a_document_that_is_unsafe_sends_nobody_anywhere() -> None:
    home = ProviderConsole()
    sound = dict(home.provider.document)
    for case, (fields, said) in _DOCUMENTS.items():
        browser = home.browser()
        home.provider.document = sound | fields
        answer = await browser.get("/oidc/start?to=/groups")
        assert answer.headers["location"] == "/groups", case
        assert said in (await home.told(browser))["message"], case
        await home.clock.sleep(METADATA_PAUSE_SECONDS)


@virtual
async def test_a_providers_error_is_shown_as_text_with_a_remedy() -> None:
    home = ProviderConsole()
    browser = home.browser()
    for _ in range(2):  # the second time over what the first left
        state = parse_qs(urlsplit(await home.begun(browser)).query)["state"][0]
        words = quote("<b>no\u202e\r\n access</b>" + "x" * 2_000)
        answer = await browser.get(f"/oidc/callback?error=access_denied&error_description={words}&state={state}")
        assert answer.headers["location"] == "/streams/logs?q=a"
        problem = await home.told(browser)
        assert "access_denied: <b>no access</b>x" in problem["message"]
        assert len(problem["message"]) < 400 and problem["message"].isprintable()
        assert "sign in as somebody" in problem["remedy"]
    assert (await home.browser().get("/api/session")).json.get("problem") is None


@virtual
async def test_an_answer_of_another_provider_is_refused() -> None:
    home = ProviderConsole()
    home.provider.document["authorization_response_iss_parameter_supported"] = True
    for named, good in (("", False), ("&iss=https%3A%2F%2Fevil.example", False), (f"&iss={quote(ISSUER)}", True)):
        browser = home.browser()
        await browser.get(home.provider.authorize(await home.begun(browser)) + named)
        assert (COOKIE in browser.cookies) is good, named
    assert len([each for each in home.provider.asked if each.form]) == 1
