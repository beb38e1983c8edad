"""One record is sent by who may, where the route leads, and its command sends the same."""

import json
import shlex

import pytest

from braid.cli.traffic.produce import produce_lines
from tests.support.console.stream_records import browse, looked_at, values
from tests.unit.cli.mesh import virtual
from tests.unit.cli.traffic.test_verbs import chunks
from tests.unit.console.messages.test_rights import EVE, enforced

PRODUCE = "/api/messages/logs/produce"


@virtual
async def test_a_record_is_sent_and_found_where_it_was_said() -> None:
    mesh = await looked_at(lanes=("live", "bulk"))
    browser = await mesh.signed_in()
    body = {"lane": "bulk", "key": "k", "value": "00ff", "value_form": "hex", "headers": [["tenant", "acme"]]}
    sent = await browser.post(PRODUCE, body)
    assert sent.status == 200, sent
    assert sent.json["summary"] == "sent to logs/bulk/1 on east, partition 0, offset 0"
    assert sent.json["cli"] == ""  # the command line sends no headers
    row = (await browse(browser)).json["rows"][0]
    assert (row["key"], row["id"]) == (sent.json["key"], sent.json["id"])
    record = await browser.get("/api/messages/logs/record?channel=logs/bulk/1&partition=0&offset=0")
    assert (record.json["value_hex"], record.json["key_shown"]["text"]) == ("00ff", "k")
    assert {
        "name": "tenant",
        "bytes": 4,
        "form": "text",
        "text": "acme",
        "cut": False,
        "reason": "",
        "schema": "",
    } in record.json["headers"]


@pytest.mark.parametrize(
    "body",
    [
        {"value": "it's; $(full) `x` %s \\n"},
        {"value": "v", "key": "a:b|c"},
        {"value": "v", "key": "k", "lane": "live"},
        {"value": "--help", "key": ""},
    ],
)
def test_the_command_sends_the_same_record(body: dict[str, str]) -> None:
    @virtual
    async def run() -> None:
        mesh = await looked_at()
        browser = await mesh.signed_in()
        sent = await browser.post(PRODUCE, body)
        command = sent.json["cli"]
        assert (await browser.post(f"{PRODUCE}/cli", body)).json["cli"] == command
        printed, verb = command.split(" | braid produce ")
        _, form, typed = shlex.split(printed)
        assert form == "%s\\n"
        options = dict(each.removeprefix("--").split("=", 1) for each in shlex.split(verb)[1:])
        lane, delimiter = options.get("lane", ""), options.get("key-delimiter", "").encode()
        data = f"{typed}\n".encode()
        await mesh.shell.work(lambda session: produce_lines(session, "logs", lane, delimiter, 9.0, chunks(data)))
        rows = [
            json.loads(line)
            for line in (await mesh.shell.braid("consume", "logs", "--max", "2", "-o", "json")).out.splitlines()
        ]
        assert [(row["key"], row["value"]) for row in rows] == [(body.get("key"), body["value"])] * 2

    run()


@pytest.mark.parametrize(
    ("role", "may"), [("", False), ("consumer", False), ("viewer", False), ("producer", True), ("stream-owner", True)]
)
def test_sending_takes_the_right_to_produce(role: str, may: bool) -> None:
    @virtual
    async def run() -> None:
        mesh = await enforced()
        if role:
            await mesh.shell.braid("grant", role, "--to", EVE, "--on", "stream/logs")
        eve = await mesh.person("eve", EVE)
        answer = await eve.post(PRODUCE, {"value": "x"})
        assert answer.status == (200 if may else 403), answer
        assert answer.json["cli"] == "printf '%s\\n' x | braid produce logs"
        if not may:
            asked = await mesh.shell.braid("can-i", "produce", "stream", "logs", "--as", EVE)
            assert answer.json["error"]["message"] in asked.out
            assert answer.json["error"]["remedy"] in asked.out
        ada = await mesh.signed_in()
        assert values(await browse(ada)) == (["x", "secret"] if may else ["secret"])

    run()


@virtual
async def test_wrong_records_name_the_field() -> None:
    mesh = await looked_at()
    browser = await mesh.signed_in()
    wrong: list[tuple[dict[str, object], str, int]] = [
        ({"lane": "dlq", "value": "x"}, "lane", 400),
        ({"lane": "bulk", "value": "x"}, "lane", 404),
        ({"value": "0", "value_form": "hex"}, "value", 400),
        ({"value": "x", "value_form": "xml"}, "value_form", 400),
        ({"value": 5}, "value", 400),
        ({"value": "x", "headers": [["braid-id", "1"]]}, "headers", 400),
        ({"value": "x", "headers": [["a", "1"], ["a", "2"]]}, "headers", 400),
        ({"value": "x", "headers": [["a"]]}, "headers", 400),
        ({"value": "x", "headers": [["é", "1"]]}, "headers", 400),
        ({"value": "x", "topic": "other"}, "topic", 400),
    ]
    for body, field, status in wrong:
        answer = await browser.post(PRODUCE, body)
        assert (answer.status, answer.json["error"]["field"]) == (status, field), (body, answer)
    assert (await browser.post(PRODUCE, {"value": "x"}, {"x-braid-csrf": ""})).status == 403
    assert (await browse(browser)).json["rows"] == []


@virtual
async def test_a_record_whose_fate_is_unknown_says_so() -> None:
    mesh = await looked_at()
    browser = await mesh.signed_in()
    mesh.kafka.cut("east")
    answer = await browser.post(PRODUCE, {"value": "x"})
    assert answer.status in (503, 504, 500), answer
    assert answer.json["error"]["reason"] == "DELIVERY_UNKNOWN"
    assert answer.json["cli"]
