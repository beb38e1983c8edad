"""A record in a row, in full and as a download; whatever its sender wrote stays data."""

import asyncio
import json

from console.server.limits import MESSAGES_ASKED_MAX, MESSAGES_AT_ONCE_PER_SESSION, MESSAGES_SHOWN_BYTES
from tests.support.console.stream_records import browse, looked_at, values, write
from tests.unit.cli.mesh import virtual

SCRIPT = b"<script>alert(1)</script>"
TRACE = "0af7651916cd43dd8448eb211c80319c"
ADDRESS = "/api/messages/logs/{what}?channel=logs/live/1&partition=0&offset={offset}"


@virtual
async def test_hostile_bytes_stay_data() -> None:
    mesh = await looked_at()
    hostile = [
        (SCRIPT, "text", SCRIPT.decode()),
        ("\u202egpj.exe".encode(), "text", "\u202egpj.exe"),
        (b"\xff\xfe\x00", "hex", "fffe00"),
        (b"a\x00b", "hex", "610062"),
        (b"\xed\xa0\x80", "hex", "eda080"),  # half of a pair of surrogates
        (b"[" * 100_000, "text", "[" * 400),
        (b'{"a": ' * 5_000, "text", ('{"a": ' * 5_000)[:400]),
        (b'{"a": 1}', "json", '{"a": 1}'),
        (b'{"a": NaN}', "json", '{"a": NaN}'),
        (b"", "text", ""),
        (None, "none", ""),
    ]
    for value, _, _ in hostile:
        write(mesh, value, key=SCRIPT, headers=((SCRIPT.decode(), b"\xff"), ("traceparent", b"<x>")))
    browser = await mesh.signed_in()
    answer = await browse(browser, from_="earliest")
    rows = answer.json["rows"]
    assert [(row["value_shown"]["form"], row["value_shown"]["text"]) for row in rows] == [each[1:] for each in hostile]
    assert {row["trace_id"] for row in rows} == {""}
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    for offset in range(len(hostile)):
        record = await browser.get(ADDRESS.format(what="record", offset=offset))
        assert record.status == 200
        assert record.json["headers"][0] == {
            **{
                "name": SCRIPT.decode(),
                "bytes": 1,
                "form": "hex",
                "text": "ff",
                "cut": False,
                "reason": "",
                "schema": "",
            }
        }


@virtual
async def test_a_filter_meets_hostile_values_without_harm() -> None:
    mesh = await looked_at()
    for value in (
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"a": {"b": [1, {"c": "x"}]}}',
        b'{"a": 1' + b"0" * 5_000 + b"}",
        None,
    ):
        write(mesh, value, key=b"k")
    browser = await mesh.signed_in()
    assert values(await browse(browser, filter="json.a.b.1.c=x")) == ['{"a": {"b": [1, {"c": "x"}]}}']
    assert len(values(await browse(browser, filter="json.a.b.1.c!=x"))) == 4
    assert len(values(await browse(browser, filter="json.a>1 or key=k"))) == 5
    assert len(values(await browse(browser, filter="not size>2"))) == 2


@virtual
async def test_a_large_value_is_cut_and_downloaded_whole() -> None:
    mesh = await looked_at()
    large = "é".encode() * 500_000
    write(mesh, large)
    browser = await mesh.signed_in()
    row = (await browse(browser)).json["rows"][0]
    assert (row["value_bytes"], row["value_shown"]["cut"], len(row["value_shown"]["text"])) == (1_000_000, True, 400)
    record = (await browser.get(ADDRESS.format(what="record", offset=0))).json
    assert record["value_shown"] == {
        "form": "text",
        "text": "é" * (MESSAGES_SHOWN_BYTES // 2),
        "cut": True,
        "reason": "",
        "schema": "",
    }
    whole = await browser.get(ADDRESS.format(what="download", offset=0))
    assert whole.body == large
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-disposition"] == 'attachment; filename="logs-live-1-0-0.bin"'


@virtual
async def test_headers_times_and_the_trace_are_told() -> None:
    mesh = await looked_at()
    headers = (
        ("braid-id", b"01ABC:7"),
        ("braid-ts", b"1700000000123"),
        ("traceparent", f"00-{TRACE}-b7ad6b7169203331-01".encode()),
    )
    write(mesh, json.dumps({"b": 1, "a": [2]}).encode(), headers=headers, at_ms=5, key=b"k")
    browser = await mesh.signed_in()
    answer = await browse(browser)
    row = answer.json["rows"][0]
    assert (row["id"], row["ingested_at_ms"], row["timestamp_ms"]) == ("01ABC:7", 1_700_000_000_123, 1_700_000_000_005)
    assert (row["trace_id"], answer.json["trace_link"]) == (TRACE, "https://traces.example/{trace_id}")
    record = (await browser.get(ADDRESS.format(what="record", offset=0))).json
    assert [each["name"] for each in record["headers"]] == ["braid-id", "braid-ts", "traceparent"]
    assert record["cli"].startswith(
        "braid consume logs --from=2023-11-14T22:13:20.005Z --lane=live --partition=0 --filter=offset=0 --max=1"
    )


@virtual
async def test_the_command_prints_the_records_that_were_shown() -> None:
    mesh = await looked_at()
    for number in range(6):
        write(mesh, b"%d" % number, at_ms=number)
    browser = await mesh.signed_in()
    for body, printed in (({"limit": 2}, ["4", "5"]), ({"from_": "earliest", "limit": 2}, ["0", "1"])):
        command = (await browse(browser, **body)).json["cli"]
        result = await mesh.shell.braid(*command.split()[1:])
        assert [json.loads(line)["value"] for line in result.out.splitlines()] == printed, result


@virtual
async def test_one_browser_cannot_keep_the_console_busy() -> None:
    mesh = await looked_at()
    write(mesh, b"x")
    mesh.shell.kafka_latency_seconds = 0.05
    browser, other = await mesh.signed_in(), await mesh.signed_in()
    at_once = await asyncio.gather(*(browse(browser) for _ in range(MESSAGES_AT_ONCE_PER_SESSION + 3)))
    assert sorted(each.status for each in at_once) == [200, 200, 429, 429, 429]
    assert (await browse(other)).status == 200
    mesh.shell.kafka_latency_seconds = 0.0
    statuses = [(await browse(browser)).status for _ in range(MESSAGES_ASKED_MAX)]
    assert statuses.count(429) == MESSAGES_AT_ONCE_PER_SESSION
    await asyncio.sleep(30)
    assert (await browse(browser)).status == 200
