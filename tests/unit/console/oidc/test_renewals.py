"""Tokens of people who signed in with a provider: renewed in time, and what follows where they are not."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from console.server.limits import FEED_LINGER_SECONDS, HEARTBEAT_SECONDS, RENEW_BEFORE_SECONDS
from console.server.oidc.http import HttpAnswer
from console.server.oidc.renewals import due_ms
from console.server.oidc.settings import BearerKind
from console.server.oidc.tokens import Grant, claims_of
from tests.support.oidc_provider import SETTINGS, MemoryProvider
from tests.support.provider_console import ProviderConsole
from tests.unit.cli.mesh import virtual


class House(ProviderConsole):
    """A console, and one person whose tokens last five minutes."""

    def __init__(self, bearer: BearerKind = BearerKind.ACCESS) -> None:
        super().__init__(replace(SETTINGS, bearer=bearer))
        self.person = self.browser()

    async def session(self) -> Mapping[str, Any]:
        """The session as the person's page gets it."""
        found: Mapping[str, Any] = (await self.person.get("/api/session")).json
        return found

    def renewals(self) -> int:
        """How often tokens were asked for with a refresh token."""
        return sum((each.form or {}).get("grant_type") == "refresh_token" for each in self.provider.asked)


async def signed_in(bearer: BearerKind = BearerKind.ACCESS, **answer: object) -> House:
    """A house whose person has signed in."""
    home = House(bearer)
    home.provider.answer = answer
    await home.sign_in(home.person)
    assert (await home.session())["signed_in"], await home.session()
    return home


@virtual
async def test_a_token_is_renewed_before_it_ends_while_it_is_used() -> None:
    home = await signed_in()
    life = home.provider.lifetime_seconds
    await home.clock.sleep(life - RENEW_BEFORE_SECONDS - HEARTBEAT_SECONDS)
    assert home.renewals() == 0
    await home.clock.sleep(2 * HEARTBEAT_SECONDS)
    assert home.renewals() == 1
    assert claims_of(home.readers[0].shown[0])["sub"] == "ada"
    await home.clock.sleep(2 * life)
    assert (await home.session())["signed_in"]
    assert home.renewals() == len(home.readers[0].shown) == len(set(home.readers[0].shown)) == 3
    home.person.csrf = (await home.session())["csrf"]
    await home.person.send("DELETE", "/api/session", b"")
    await home.clock.sleep(life)
    assert home.renewals() == 3  # nobody uses it any more


@virtual
async def test_a_provider_that_is_away_for_a_while_ends_nothing() -> None:
    home = await signed_in()
    await home.clock.sleep(home.provider.lifetime_seconds - RENEW_BEFORE_SECONDS - HEARTBEAT_SECONDS)
    home.provider.away = True
    await home.clock.sleep(RENEW_BEFORE_SECONDS - HEARTBEAT_SECONDS)
    assert 5 <= len([each for each in home.provider.asked if each.form]) <= 15
    home.provider.away = False
    await home.clock.sleep(4 * home.provider.lifetime_seconds)
    assert (await home.session())["signed_in"]


@virtual
async def test_a_provider_that_stays_away_ends_the_session() -> None:
    home = await signed_in()
    home.provider.away = True
    await home.clock.sleep(home.provider.lifetime_seconds - 1.0)
    assert (await home.session())["signed_in"]
    await home.clock.sleep(1.0)
    told = await home.session()
    assert not told["signed_in"]
    assert "cannot be reached" in told["problem"]["message"]
    assert "problem" not in (await home.browser().get("/api/session")).json


@virtual
async def test_a_person_signed_out_by_the_provider_is_signed_out_here() -> None:
    home = await signed_in()
    async with home.person.stream("/api/live/clusters") as stream:
        await stream.next("snapshot")
        home.provider.withdraw()
        assert (await stream.next("end", 400.0)).data == {"reason": "session"}
    told = await home.session()
    assert "the session was ended" in told["problem"]["message"]
    assert told["problem"]["remedy"] == "sign in again"
    await home.clock.sleep(FEED_LINGER_SECONDS)
    assert home.console.feeds.count == 0


@virtual
async def test_a_misconfigured_client_is_tried_again() -> None:
    home = await signed_in()
    home.provider.raw["/token"] = HttpAnswer(401, b'{"error": "invalid_client"}')
    await home.clock.sleep(home.provider.lifetime_seconds - 20.0)
    assert (await home.session())["signed_in"]
    home.provider.raw.clear()
    await home.clock.sleep(home.provider.lifetime_seconds)
    assert (await home.session())["signed_in"]


@virtual
async def test_a_renewal_for_another_person_ends_the_session() -> None:
    home = await signed_in()
    home.provider.claims = {"sub": "eve"}
    await home.clock.sleep(home.provider.lifetime_seconds - HEARTBEAT_SECONDS)
    assert "names another person" in (await home.session())["problem"]["message"]
    assert home.readers[0].shown == []


@virtual
async def test_without_a_refresh_token_a_session_ends_with_its_token() -> None:
    home = await signed_in(refresh_token=None)
    await home.clock.sleep(home.provider.lifetime_seconds)
    told = await home.session()
    assert "gave none to renew it with" in told["problem"]["message"]
    assert "offline_access" in told["problem"]["remedy"]


@virtual
async def test_an_id_token_that_is_not_renewed_ends_the_session() -> None:
    home = await signed_in(BearerKind.ID)
    home.provider.answer = {"id_token": None}
    await home.clock.sleep(home.provider.lifetime_seconds)
    assert "renews no ID token" in (await home.session())["problem"]["message"]


@virtual
async def test_a_clock_that_is_wrong_by_an_hour_changes_no_lifetime() -> None:
    """The lifetime that the provider says counts from the answer, whatever its clock says."""
    home = House()
    signer = MemoryProvider(lambda: home.clock.now_ms() + 3_600_000)
    signer.issuer, home.provider.issuer = home.provider.issuer, signer.issuer
    access = signer.issuer.token("ada", now=home.clock.now_ms() / 1_000 + 3_600, aud="braid")
    home.provider.answer, home.provider.claims = {"access_token": access}, {"at_hash": None}
    await home.sign_in(home.person)
    assert (await home.session())["signed_in"]
    await home.clock.sleep(home.provider.lifetime_seconds - HEARTBEAT_SECONDS)
    assert home.renewals() == 1


@virtual
async def test_tokens_of_seconds_are_renewed_whenever_the_sign_in_was() -> None:
    for begun in range(12):
        home = House()
        home.provider.lifetime_seconds = 12.0
        await home.clock.sleep(0.7 * begun)
        await home.sign_in(home.person)
        await home.clock.sleep(60.0)
        assert (await home.session())["signed_in"], begun


def test_short_lived_tokens_are_renewed_after_two_thirds() -> None:
    for seconds, early in ((3_600, 60), (300, 60), (90, 30), (30, 10)):
        lasts = seconds * 1_000
        assert due_ms(Grant("b", lasts, lasts, "i", "r", "s", "n")) == (seconds - early) * 1_000
