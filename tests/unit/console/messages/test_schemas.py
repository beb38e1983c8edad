"""Values that name their schema are read by it; a bomb, a lie or a registry that is away leaves them as hexadecimal."""

import asyncio
import base64
import io
import json
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from braid.kernel.errors import NotFound
from console.server.limits import SCHEMAS_PER_ANSWER_MAX
from console.server.messages.schemas.decoders import Described, decoder_of
from console.server.messages.schemas.http import RegistryClient
from console.server.messages.schemas.wire import message_place
from tests.support.console.schema_registry import SchemaRegistryTwin, registry_twin
from tests.support.console.stream_records import browse, looked_at, values, write
from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import virtual

USER = {
    "type": "record",
    "name": "User",
    "namespace": "shop",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": ["null", "bytes"]},
    ],
}
VALUE = {"name": "ada", "tags": ["a", "b"], "seen": 1_700_000_000_000, "raw": b"\x00\xff"}


def avro(schema: Any, value: object, id: int) -> bytes:
    """A value in the wire format."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return b"\x00" + id.to_bytes(4, "big") + out.getvalue()


def order_file() -> descriptor_pb2.FileDescriptorProto:
    """A file of two messages, one of which has another inside; it needs a file of Google's, and a neighbour's."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "item.proto"])
    file.message_type.add(name="First")
    order = file.message_type.add(name="Order")
    order.field.add(name="at", number=1, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.field.add(name="items", number=2, type=11, label=3, type_name=".shop.Item")
    line = order.nested_type.add(name="Line")
    line.field.add(name="text", number=1, type=9, label=1)
    return file


def item_file() -> descriptor_pb2.FileDescriptorProto:
    """The neighbour's file."""
    file = descriptor_pb2.FileDescriptorProto(name="other-name.proto", package="shop", syntax="proto3")
    item = file.message_type.add(name="Item")
    item.field.add(name="sku", number=1, type=9, label=1)
    return file


def serialized(file: descriptor_pb2.FileDescriptorProto) -> str:
    """A file as the registry gives it."""
    return base64.b64encode(file.SerializeToString()).decode()


async def with_registry(twin: SchemaRegistryTwin) -> ConsoleMesh:
    """A mesh whose console knows a registry."""
    mesh = await looked_at()
    return ConsoleMesh(mesh.shell, fetch_schema=twin.fetch)


@virtual
async def test_avro_is_read_filtered_and_shown_as_json() -> None:
    twin = SchemaRegistryTwin({7: {"schema": json.dumps(USER)}})
    mesh = await with_registry(twin)
    write(mesh, avro(USER, VALUE, 7))
    write(mesh, b'{"name": "plain"}')
    browser = await mesh.signed_in()
    answer = await browse(browser, from_="earliest")
    shown = answer.json["rows"][0]["value_shown"]
    assert (shown["form"], shown["schema"]) == ("avro", "7")
    assert json.loads(shown["text"]) == {
        **{"name": "ada", "tags": ["a", "b"], "seen": "2023-11-14 22:13:20+00:00", "raw": "00ff"}
    }
    assert len(values(await browse(browser, filter="json.tags.1=b"))) == 1
    assert len(values(await browse(browser, filter="json.name=plain"))) == 1
    assert answer.json["rows"][1]["value_shown"]["schema"] == ""
    record = await browser.get("/api/messages/logs/record?channel=logs/live/1&partition=0&offset=0")
    assert (record.json["value_shown"]["form"], record.json["value_hex"][:10]) == ("avro", "0000000007")
    assert twin.asked == ["/schemas/ids/7"]  # once, for all of them
    assert values(await browse(browser, form="hex", from_="earliest"))[0].startswith("0000000007")


@virtual
async def test_protobuf_is_read_by_its_descriptor_and_references() -> None:
    reference = {"name": "item.proto", "subject": "shop/item", "version": 3}
    twin = SchemaRegistryTwin(
        {
            8: {"schema": serialized(item_file()), "schemaType": "PROTOBUF"},
            9: {"schema": serialized(order_file()), "schemaType": "PROTOBUF", "references": [reference]},
        },
        {("shop/item", 3): {"id": 8, "schema": "as text, whatever is asked for", "schemaType": "PROTOBUF"}},
    )
    mesh = await with_registry(twin)
    at = timestamp_pb2.Timestamp(seconds=1_700_000_000).SerializeToString()
    order = b"\x0a" + bytes([len(at)]) + at + b"\x12\x05\x0a\x03abc"
    head = b"\x00\x00\x00\x00\x09"
    write(mesh, head + b"\x02\x02" + order)  # one level deep, the message with number 1
    write(mesh, head + b"\x04\x02\x00\x0a\x02hi")  # two levels deep
    write(mesh, head + b"\x00")  # the first message
    write(mesh, head + b"\x02\x0e" + order)  # there is no eighth
    write(mesh, head + b"\x02\x02\xff")
    answer = await browse(await mesh.signed_in(), from_="earliest")
    rows = [row["value_shown"] for row in answer.json["rows"]]
    assert [row["form"] for row in rows] == ["protobuf", "protobuf", "protobuf", "hex", "hex"]
    assert json.loads(rows[0]["text"]) == {"at": "2023-11-14T22:13:20Z", "items": [{"sku": "abc"}]}
    assert json.loads(rows[1]["text"]) == {"text": "hi"}
    assert rows[3]["reason"] == "its schema has no such message"
    assert {"/subjects/shop%2Fitem/versions/3", "/schemas/ids/8?format=serialized"} <= set(twin.asked)


@virtual
async def test_what_cannot_be_decoded_is_hexadecimal_with_the_reason() -> None:
    twin = SchemaRegistryTwin(
        {
            1: {"schema": json.dumps(USER)},
            2: {"schema": "not json"},
            3: {"schema": "{}", "schemaType": "THRIFT"},
            4: {"schema": "{}", "schemaType": "JSON", "references": [{"name": "a", "subject": "gone", "version": 1}]},
        }
    )
    mesh = await with_registry(twin)
    for id, payload in ((1, b"\x06ab"), (2, b""), (3, b""), (5, b""), (4, b'{"a": 1}'), (4, b"{")):
        write(mesh, b"\x00" + id.to_bytes(4, "big") + payload)
    answer = await browse(await mesh.signed_in(), from_="earliest")
    shown = [row["value_shown"] for row in answer.json["rows"]]
    assert [each["form"] for each in shown] == ["hex", "hex", "hex", "hex", "json", "hex"]
    assert shown[0]["reason"].startswith("it is no value of its schema")
    assert "unknown kind THRIFT" in shown[2]["reason"]
    assert shown[3]["reason"] == "schema 5: the schema registry does not know it"
    assert shown[4]["text"] == '{"a": 1}'
    assert all(each["reason"] for each in shown if each["form"] == "hex")
    assert [each["schema"] for each in shown] == ["1", "2", "3", "5", "4", "4"]


@virtual
async def test_a_registry_that_answers_nonsense_is_no_error() -> None:
    whole = {"name": "a", "subject": "s"}
    nonsense = [{}, {"name": "a"}, "a", {**whole, "version": None}, {**whole, "version": "x"}]
    schemas = {id: {"schema": json.dumps(USER), "references": [each]} for id, each in enumerate(nonsense)}
    mesh = await with_registry(SchemaRegistryTwin({**schemas, 5: {"schema": json.dumps(USER), "references": 5}}))
    for id in range(6):
        write(mesh, avro(USER, VALUE, id))
    answer = await browse(await mesh.signed_in(), from_="earliest")
    shown = [row["value_shown"] for row in answer.json["rows"]]
    assert [(each["form"], each["reason"][:9]) for each in shown] == [("hex", f"schema {id}:") for id in range(6)]


@virtual
async def test_json_may_be_nested_too_deep_or_have_half_a_character() -> None:
    mesh = await with_registry(SchemaRegistryTwin({4: {"schema": "{}", "schemaType": "JSON"}}))
    for payload in (b"[" * 100_000 + b"]" * 100_000, b'{"a": "\\ud800"}', b"[" * 900 + b"]" * 900):
        write(mesh, b"\x00\x00\x00\x00\x04" + payload)
    browser = await mesh.signed_in()
    answer = await browse(browser, from_="earliest")
    shown = [row["value_shown"] for row in answer.json["rows"]]
    assert (shown[0]["form"], shown[0]["reason"]) == (
        "hex",
        "it has more than 65536 bytes: it is decoded when it is opened, or not at all",
    )
    assert shown[1]["form"] == "json"
    assert (shown[2]["form"], shown[2]["reason"]) == ("hex", "it is nested too deep")
    assert values(await browse(browser, filter="json.b=1")) == []
    record = await browser.get("/api/messages/logs/record?channel=logs/live/1&partition=0&offset=0")
    assert record.json["value_shown"]["reason"] == "it is nested too deep"


@virtual
async def test_made_up_ids_cost_a_bounded_number_of_requests() -> None:
    twin = SchemaRegistryTwin({})
    mesh = await with_registry(twin)
    for number in range(100):
        write(mesh, b"\x00" + number.to_bytes(4, "big") + b"x")
    browser = await mesh.signed_in()
    answer = await browse(browser)
    assert len(twin.asked) == SCHEMAS_PER_ANSWER_MAX
    reasons = [row["value_shown"]["reason"] for row in answer.json["rows"]]
    assert sum("too many schemas in one answer" in each for each in reasons) == 100 - SCHEMAS_PER_ANSWER_MAX
    await browse(browser, limit=5)
    assert len(twin.asked) == SCHEMAS_PER_ANSWER_MAX  # what is not there is remembered


@virtual
async def test_a_registry_that_is_away_holds_nobody_up() -> None:
    twin = SchemaRegistryTwin({7: {"schema": json.dumps(USER)}})
    twin.silent = True
    mesh = await with_registry(twin)
    for number in range(8):
        write(mesh, avro(USER, {**VALUE, "name": str(number)}, 7 + number))
    browser = await mesh.signed_in()
    answer = await browse(browser)
    assert answer.json["looked_at"]["ms"] < 3_000
    assert {row["value_shown"]["form"] for row in answer.json["rows"]} == {"hex"}
    assert "did not answer" in answer.json["rows"][0]["value_shown"]["reason"]
    twin.silent = False
    await asyncio.sleep(10)
    assert (await browse(browser)).json["rows"][-1]["value_shown"]["form"] == "avro"


def record(*types: object) -> dict[str, object]:
    """A record with fields of these types."""
    return {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": each} for n, each in enumerate(types)]}


def nested(depth: int) -> object:
    """Records within one another, each with two of the next, around nothing."""
    inner: object = "null"
    for level in range(depth):
        fields = [
            {"name": name, "type": inner if name == "a" else f"N{level - 1}" if level else "null"} for name in "ab"
        ]
        inner = {"type": "record", "name": f"N{level}", "fields": fields}
    return inner


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "array", "items": "null"}, "take no bytes"),
        ({"type": "array", "items": record()}, "take no bytes"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, "take no bytes"),
        (record({"type": "array", "items": record("R")}), "refers to itself"),
        (record(["null", "R"]), "refers to itself"),
        (["null", "Nowhere"], "nowhere"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": -5}}, "size"),
        (record({"type": "fixed", "name": "F", "size": "4"}), "size"),
        (json.loads('{"type": ' * 60 + '"int"' + "}" * 60), "nested"),
    ],
)
def test_schemas_that_could_fill_the_memory_are_refused(schema: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decoder_of(Described("AVRO", json.dumps(schema)))


def test_values_that_could_fill_the_memory_are_refused() -> None:
    doubling = decoder_of(Described("AVRO", json.dumps(nested(30))))
    with pytest.raises(ValueError, match="could make more"):
        doubling.decode(b"")
    wide = decoder_of(Described("AVRO", json.dumps({"type": "array", "items": record("int", *["null"] * 500)})))
    with pytest.raises(ValueError, match="could make more"):
        wide.decode(b"\x00" * 100_000)
    claims = decoder_of(Described("AVRO", json.dumps({"type": "array", "items": "int"})))
    with pytest.raises(ValueError, match="no value of its schema"):
        claims.decode(b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"\x02" * 100)


@pytest.mark.parametrize("payload", [b"", b"\x80", b"\x80\x80\x80\x80\x80\x01", b"\x64", b"\x01", b"\x04\x00"])
def test_places_of_messages_that_are_none_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match=r"ends|long|deep"):
        message_place(payload)


@pytest.mark.slow
async def test_the_client_asks_over_http_and_follows_nobody() -> None:
    with registry_twin({7: {"schema": '"string"'}}, login="ada:secret") as (address, requests, login):
        client = RegistryClient(f"{address}/base/", login)
        try:
            assert json.loads(await client.fetch("/schemas/ids/7")) == {"schema": '"string"'}
            with pytest.raises(NotFound):
                await client.fetch("/schemas/ids/8")
            for path, words in (("/redirect", "answers 302"), ("/large", "more than"), ("/denied", "answers 401")):
                with pytest.raises(Exception, match=words):
                    await client.fetch(path)
        finally:
            await client.close()
        assert requests[0] == ("/base/schemas/ids/7", "Basic YWRhOnNlY3JldA==")
        assert [path for path, _ in requests if "elsewhere" in path] == []
