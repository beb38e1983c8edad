"""Records are seen by those whom the mesh lets consume the stream, and by nobody with the console's own rights."""

import pytest

from braid.runtime.access.settings import AccessMode, AccessSettings
from tests.support.browser import Answer, Browser
from tests.support.console.stream_records import browse, write
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual

ADA = "spiffe://braid.local/user/ada"
EVE = "spiffe://braid.local/user/eve"
RECORD = "/api/messages/logs/record?channel=logs/live/1&partition=0&offset=0"
DOWNLOAD = RECORD.replace("record", "download", 1)


async def enforced() -> ConsoleMesh:
    """A mesh that enforces rights, with a stream that holds one record; its console's own user is an admin."""
    shell = Shell()
    shell.access = AccessSettings(AccessMode.ENFORCED, frozenset({ADA}))
    shell.principals |= {"cli": ADA, "console": ADA}
    await shell.start("east")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    assert (await shell.braid("create", "stream", "other", "--lane", "live=1")).code == 0
    mesh = ConsoleMesh(shell)
    write(mesh, b"secret")
    return mesh


async def all_answers(browser: Browser) -> list[Answer]:
    """The answers that somebody gets from every address that shows records."""
    return [await browse(browser), await browser.get(RECORD), await browser.get(DOWNLOAD)]


@pytest.mark.parametrize(
    ("role", "on", "sees"),
    [
        ("", "", False),
        ("viewer", "stream/logs", False),
        ("viewer", "", False),
        ("producer", "stream/logs", False),
        ("operator", "", False),
        ("consumer", "stream/other", False),
        ("consumer", "group/logs", False),
        ("consumer", "stream/logs", True),
        ("consumer", "stream/lo*", True),
        ("stream-owner", "stream/logs", True),
        ("admin", "", True),
    ],
)
def test_records_take_the_right_to_consume(role: str, on: str, sees: bool) -> None:
    @virtual
    async def run() -> None:
        mesh = await enforced()
        if role:
            scope = [f"--on={on}"] if on else []
            assert (await mesh.shell.braid("grant", role, "--to", EVE, *scope)).code == 0
        eve = await mesh.person("eve", EVE)
        for answer in await all_answers(eve):
            assert answer.status == (200 if sees else 403), answer
            assert (b"secret" in answer.body) == sees

    run()


@virtual
async def test_a_refusal_says_what_the_command_line_says() -> None:
    mesh = await enforced()
    eve = await mesh.person("eve", EVE)
    refused = await browse(eve, lane="live", limit=5)
    error = refused.json["error"]
    asked = await mesh.shell.braid("can-i", "consume", "stream", "logs", "--as", EVE)
    assert error["message"] in asked.out
    assert error["remedy"] in asked.out
    assert refused.json["cli"] == "braid consume logs --from=latest --lane=live --max=5 -o json"


@virtual
async def test_a_right_that_ended_shows_nothing_more() -> None:
    mesh = await enforced()
    await mesh.shell.braid("grant", "consumer", "--to", EVE, "--on", "stream/logs")
    eve = await mesh.person("eve", EVE)
    assert (await browse(eve)).status == 200
    await mesh.shell.braid("revoke", "consumer", "--from", EVE, "--on", "stream/logs")
    assert [each.status for each in await all_answers(eve)] == [403, 403, 403]


@virtual
async def test_no_request_names_a_topic_of_another_stream() -> None:
    mesh = await enforced()
    await mesh.shell.braid("grant", "consumer", "--to", EVE, "--on", "stream/other")
    eve = await mesh.person("eve", EVE)
    for path, status in (
        ("other/record?channel=logs/live/1&partition=0&offset=0", 400),
        ("other/record?channel=other/live/9&partition=0&offset=0", 404),
        ("other/record?channel=other/live/1&partition=5&offset=0", 404),
        ("other/record?channel=other/live/1&partition=0&offset=5", 404),
        ("other/record?channel=__consumer_offsets&partition=0&offset=0", 400),
        ("logs/record?channel=logs/live/1&partition=0&offset=0", 403),
    ):
        assert (await eve.get(f"/api/messages/{path}")).status == status, path
    positions = {"logs/live/1/0": 0}
    answer = await eve.post("/api/messages/other", {"from": "earliest", "positions": positions})
    assert (answer.status, answer.json["rows"]) == (200, [])


@virtual
async def test_strangers_and_other_sites_get_nothing() -> None:
    mesh = await enforced()
    assert [each.status for each in await all_answers(mesh.browser())] == [401, 401, 401]
    signed_in = await mesh.signed_in()
    assert (await signed_in.post("/api/messages/logs", {}, {"x-braid-csrf": ""})).status == 403
    assert (await signed_in.post("/api/messages/logs", {}, {"sec-fetch-site": "cross-site"})).status == 403
