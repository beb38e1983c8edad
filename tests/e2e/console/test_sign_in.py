"""Signing in with a real provider, in a real browser, at a real console, over a real registry that verifies tokens."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from braid.api.registry.v1 import grant_pb2 as grants
from braid.host.system import system_host
from braid.host.tls.files import TlsFiles
from braid.rpc.directory import Directory
from braid.rpc.grpc.transport import GrpcTransport
from braid.rpc.mesh_client import ServiceClient
from testbed.authority import Authority
from testbed.chromium import chromium_binary
from testbed.patience import in_time, until
from testbed.ports import free_port
from tests.integration.test_access import ANN, READY_SECONDS, Processes
from tests.support.openid_process import OpenIdProvider, openid_provider
from tests.support.service_process import start_service

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(500)]

_TOKEN_SECONDS: Final = 12  # of access tokens: two are renewed while the test looks on
_PATIENCE_MS: Final = 60_000.0


@dataclass(frozen=True)
class House:
    """The processes of a test, and a browser.

    Attributes:
        address: Of the console.
        provider: Where people sign in.
        registry: A client of the registry, as an admin.
        browser: Somebody's.
    """

    address: str
    provider: OpenIdProvider
    registry: ServiceClient
    browser: Browser


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    """Starts a provider, a registry that takes its tokens, a console, and a browser."""
    async with AsyncExitStack() as stack:
        address = f"http://127.0.0.1:{free_port()}"
        provider = stack.enter_context(openid_provider(tmp_path, address, _TOKEN_SECONDS))
        authority = Authority.make()
        taken = {
            "TLS_CLIENTS": "either",
            "TOKEN_ISSUER": provider.issuer,
            "TOKEN_AUDIENCE": "braid",
            "TOKEN_KEYS": f"{provider.issuer}/jwks",
            "TOKEN_LEEWAY_SECONDS": "0",
        }
        processes = Processes(tmp_path, authority, **taken)
        stack.push_async_callback(processes.close)
        await processes.start("registry-0")
        ready = processes.ready["registry-0"]
        admin = authority.client(tmp_path / "ann", ANN)
        directory = Directory(GrpcTransport(TlsFiles(admin)), system_host(), [ready["tls_address"]])
        stack.push_async_callback(directory.close)
        assert admin.ca is not None
        await _start_console(stack, tmp_path, address, ready["address"], admin.ca, provider)
        await until(lambda: _true(provider.grants("ready") > 0), "the provider does not serve", READY_SECONDS)
        expect.set_options(timeout=_PATIENCE_MS)
        playwright = await stack.enter_async_context(async_playwright())
        browser = await playwright.chromium.launch(executable_path=chromium_binary(), args=["--no-sandbox"])
        stack.push_async_callback(browser.close)
        yield House(address, provider, ServiceClient(directory, "registry", system_host()), browser)


async def _start_console(
    stack: AsyncExitStack, directory: Path, address: str, endpoint: str, ca: Path, provider: OpenIdProvider
) -> None:
    ready = directory / "console.json"
    settings = {
        "ENDPOINT": endpoint,
        "TLS_CA": str(ca),
        "CONSOLE_HOME": str(directory / "console"),
        "CONSOLE_LISTEN": address.partition("://")[2],
        "CONSOLE_SIGN_IN": "oidc",
        "CONSOLE_OIDC_ISSUER": provider.issuer,
        "CONSOLE_OIDC_CLIENT_ID": "braid-console",
        "CONSOLE_OIDC_NAME": "Example",
        "CONSOLE_READY_FILE": str(ready),
        "CONSOLE_PARENT_PID": str(os.getpid()),
    }
    own = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
    environment = own | {f"BRAID_{name}": value for name, value in settings.items()}
    process = start_service("console.server", directory / "console.log", environment)

    async def end() -> None:
        if process.returncode is None:
            process.terminate()
        await in_time(process.wait(), "the console ends")

    stack.push_async_callback(end)
    await until(lambda: _true(ready.exists()), "the console does not serve", READY_SECONDS)
    assert json.loads(ready.read_text())["console"] == address


async def _true(value: bool) -> bool:
    return value


async def _grant(house: House, name: str, role: "grants.AccessRole.ValueType") -> None:
    spec = grants.GrantSpec(principal=f"jwt:{name}", role=role, reason="of a test")
    await house.registry.unary("GrantAccess", grants.GrantAccessRequest(spec=spec), grants.Grant, timeout_seconds=20.0)


async def _visitor(house: House) -> Page:
    context = await house.browser.new_context()
    context.set_default_timeout(_PATIENCE_MS)
    await context.route(lambda url: not url.startswith("http://127.0.0.1:"), lambda route: route.abort())  # its fonts
    return await context.new_page()


async def _sign_in(house: House, page: Page, name: str, path: str) -> None:
    """Asks for a page, signs in at the provider, and comes back to that page."""
    await page.goto(house.address + path)
    await page.get_by_role("link", name="Sign in with Example").click()
    await page.get_by_placeholder("Enter any login").fill(name)
    await page.get_by_placeholder("and password").fill("whatever")
    await page.get_by_role("button", name="Sign-in").click()
    await page.get_by_role("button", name="Continue").click()
    await page.wait_for_url(f"{house.address}{path}")
    await page.locator(".clock button", has_text="live").wait_for()


async def _cookies(page: Page) -> dict[str, str]:
    return {str(each.get("name")): str(each.get("sameSite")) for each in await page.context.cookies()}


async def test_people_sign_in_with_their_own_rights_and_out_again(house: House) -> None:
    """A viewer sees and is refused, an admin acts; tokens are renewed; signing out ends it at the provider, too."""
    await _grant(house, "eve", grants.ACCESS_ROLE_VIEWER)
    await _grant(house, "ada", grants.ACCESS_ROLE_ADMIN)
    eve, ada = await _visitor(house), await _visitor(house)
    await _sign_in(house, eve, "eve", "/access?gq=eve")
    await expect(eve.locator("summary", has_text="jwt:eve")).to_be_visible()
    await expect(eve.get_by_role("region", name="grants table")).to_contain_text("jwt:eve")
    kinds = await _cookies(eve)
    port = house.address.rpartition(":")[2]
    assert kinds[f"braid_session_{port}"] == "Strict"
    assert f"braid_login_{port}" not in kinds

    assert "jwt:eve may not" in await _cordon(eve)
    await _sign_in(house, ada, "ada", "/access")
    assert "NOT_FOUND" in await _cordon(ada)  # it is allowed, and there is no such cluster

    before = house.provider.grants("refresh_token")
    await until(lambda: _true(house.provider.grants("refresh_token") >= before + 3), "tokens are not renewed", 120.0)
    await ada.reload()
    await expect(ada.get_by_role("region", name="grants table")).to_contain_text("jwt:eve")

    await ada.locator("summary", has_text="jwt:ada").click()
    await ada.get_by_role("button", name="Sign out").click()
    await ada.get_by_role("button", name="Yes, sign me out").click()
    await ada.wait_for_url(f"{house.address}/")
    await expect(ada.get_by_role("link", name="Sign in with Example")).to_be_visible()
    await ada.get_by_role("link", name="Sign in with Example").click()
    await expect(ada.get_by_placeholder("Enter any login")).to_be_visible()  # the provider knows nobody any more
    await eve.reload()
    await expect(eve.get_by_role("region", name="grants table")).to_contain_text("jwt:eve")


async def _cordon(page: Page) -> str:
    """Tries to keep traffic from a cluster; returns what the dialog says."""
    await page.keyboard.press("Control+k")
    await page.keyboard.type("cordon")
    await page.get_by_role("option", name="cordon").first.wait_for()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("cluster").fill("nowhere")
    await dialog.locator("button[type=submit]").click()
    alert = dialog.get_by_role("alert")
    await alert.wait_for()
    said = await alert.inner_text()
    await page.keyboard.press("Escape")
    return said


async def test_a_person_who_gives_up_at_the_provider_is_told(house: House) -> None:
    """The provider's own words are shown as text, and the page that was asked for is still asked for."""
    page = await _visitor(house)
    await page.goto(f"{house.address}/access")
    await page.get_by_role("link", name="Sign in with Example").click()
    await page.get_by_role("link", name="Cancel").click()
    await page.wait_for_url(f"{house.address}/access")
    await expect(page.get_by_role("alert")).to_contain_text("access_denied")
    await expect(page.get_by_role("alert")).to_contain_text("sign in as somebody who may")
