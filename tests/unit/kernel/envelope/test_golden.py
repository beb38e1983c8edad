"""Golden vectors of the commit envelope: released bytes never change their meaning, and the reference page shows them.

`tests/golden/envelope/envelopes.json` holds envelopes to write and read, `refused.json` metadata that is not believed.
"""

import json
import re
import string
import zlib
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from braid.kernel.envelope import decode, encode
from braid.kernel.envelope.spill import read_spilled, spilled
from braid.kernel.ports import Fingerprint, TopicPartition
from braid.kernel.progress.fields import Attempts, Cursor, EnvelopeFields, LaneShare, SpillPointer
from braid.kernel.progress.ranges import Ranges

ROOT = Path(__file__).parents[4]
GOLDEN = ROOT / "tests" / "golden" / "envelope"
PAGE = ROOT / "docs" / "reference" / "commit-envelope.md"
Vector = dict[str, Any]
Field = descriptor_pb2.FieldDescriptorProto


def vectors(name: str) -> list[Vector]:
    """The vectors of one file."""
    loaded: list[Vector] = json.loads((GOLDEN / name).read_text(encoding="ascii"))
    return loaded


ENVELOPES = vectors("envelopes.json")
REFUSED = vectors("refused.json")
SPILLED = vectors("spilled.json")


def spilled_table() -> str:
    """The table of records beside commits as the page shows it."""
    rows = ["| Name | Committed | Key | Value (hex) |", "|---|---|---|---|"]
    for one in SPILLED:
        committed = f"{one['offset']}, `{one['metadata']}`"
        rows.append(f"| {one['name']} | {committed} | `{one['key']}` | `{one['value']}` |")
    return "\n".join(rows)


def fields_of(stored: Vector) -> EnvelopeFields:
    """Fields as the golden files spell them: ranges as pairs, defaults left out."""
    fields = dict(stored)
    for name in ("done", "rejected", "expired"):
        if name in fields:
            fields[name] = Ranges(fields[name])
    for name, form in (("attempts", Attempts), ("lanes", LaneShare)):
        if name in fields:
            fields[name] = tuple(form(*one) for one in fields[name])
    if "cursors" in fields:
        fields["cursors"] = tuple(Cursor(**one | {"done": Ranges(one.get("done", ()))}) for one in fields["cursors"])
    if "spill" in fields:
        fields["spill"] = SpillPointer(*fields["spill"])
    if "fingerprint" in fields:
        topic_id, leader_epoch, batch_crc = fields["fingerprint"]
        fields["fingerprint"] = Fingerprint(bytes.fromhex(topic_id), leader_epoch, batch_crc)
    return EnvelopeFields(**fields)


@pytest.mark.parametrize("vector", ENVELOPES, ids=lambda vector: vector["name"])
def test_envelopes_are_written_and_read_as_released(vector: Vector) -> None:
    fields = fields_of(vector["fields"])
    commit = encode(fields, ascii_only=vector.get("ascii", False))
    assert (commit.offset, commit.metadata) == (vector["offset"], vector["metadata"])
    assert unpacked_by_the_page(commit.metadata).hex() == vector["payload"]
    decoded = decode(vector["offset"], vector["metadata"])
    assert (decoded.kind.value, decoded.fields) == ("envelope", fields)


@pytest.mark.parametrize("vector", REFUSED, ids=lambda vector: vector["name"])
def test_other_metadata_is_judged_as_released(vector: Vector) -> None:
    decoded = decode(vector["offset"], vector["metadata"])
    assert decoded.kind.value == vector["kind"]
    assert decoded.fields == fields_of(vector["fields"])


# --- the page alone is enough: its schema, read by a stock Protocol Buffers library, understands every vector


def schema_of_page() -> str:
    """The schema the reference page prints."""
    found = re.search(r"```proto\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return found.group(1)


def message_classes() -> dict[str, type[Any]]:
    """Builds message classes from the schema printed on the page."""
    file = descriptor_pb2.FileDescriptorProto(name="envelope.proto", package="page", syntax="proto2")
    for name, body in re.findall(r"message (\w+) \{(.*?)\n\}", schema_of_page(), re.DOTALL):
        message = file.message_type.add(name=name)
        for label, kind, field, number in re.findall(r"(repeated |optional )?(\w+) (\w+) = (\d+);", body):
            scalar = f"TYPE_{kind.upper()}" in Field.Type.keys()  # noqa: SIM118 (an enum wrapper is not iterable)
            message.field.add(
                name=field,
                number=int(number),
                label=Field.LABEL_REPEATED if label == "repeated " else Field.LABEL_OPTIONAL,
                type=Field.Type.Value(f"TYPE_{kind.upper()}") if scalar else Field.TYPE_MESSAGE,
                type_name=None if scalar else f".page.{kind}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"page.{one.name}") for one in file.message_type)
    return {one.name: message_factory.GetMessageClass(one) for one in found}


def blocks_of_page() -> list[tuple[int, int, int]]:
    """The alphabet as the reference page prints it: first value, first and last code point of each block."""
    rows = re.findall(r"^\| ([\d,]+) – [\d,]+ \| U\+(\w+) – U\+(\w+) ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [(int(value.replace(",", "")), int(first, 16), int(last, 16)) for value, first, last in rows]


BLOCKS = blocks_of_page()


def unpacked_by_the_page(metadata: str) -> bytes:
    """Base-46341 as the page tells it, bit by bit."""
    text, bits = metadata.removeprefix("b1:"), ""
    if text.isascii():
        alphabet = string.ascii_uppercase + string.ascii_lowercase + string.digits + "-_"
        bits = "".join(f"{alphabet.index(character):06b}" for character in text)
        return bytes(int(bits[index : index + 8], 2) for index in range(0, len(bits) // 8 * 8, 8))
    values = [value_by_the_page(character) for character in text]
    for first, second in zip(values[::2], values[1::2], strict=False):
        bits += f"{first * 46341 + second:031b}"
    if len(values) % 2:
        bits += f"{values[-1]:015b}"
    bits = bits[: bits.rindex("1")]
    return bytes(int(bits[index : index + 8], 2) for index in range(0, len(bits), 8))


def value_by_the_page(character: str) -> int:
    """A character's value."""
    for start, first, last in BLOCKS:
        if first <= ord(character) <= last:
            return start + ord(character) - first
    raise AssertionError(f"{character!r} is in no block")


def ranges_by_the_page(coded: bytes, anchor: int) -> list[list[int]]:
    """Range coders as the page tells them."""
    if not coded:
        return []
    numbers: list[int] = []
    position, shift, value = 1, 0, 0
    numbers_before_bits = {1: 4, 3: 1}.get(coded[0])
    while position < len(coded) and len(numbers) != numbers_before_bits:
        value |= (coded[position] & 0x7F) << shift
        shift += 7
        if coded[position] < 0x80:
            numbers.append(value)
            shift = value = 0
        position += 1
    start = anchor + (numbers[0] >> 1 ^ -(numbers[0] & 1))
    if coded[0] == 1:
        return rice_by_the_page(coded[position:], start, *numbers[1:])
    if coded[0] == 3:
        bits = "".join(f"{byte:08b}"[::-1] for byte in coded[position:])
        return [[start + found.start(), start + found.end()] for found in re.finditer("1+", bits)]
    ranges = []
    for run, gap in zip(numbers[1::2], [*numbers[2::2], 0], strict=True):
        ranges.append([start, start + run])
        start += run + gap
    return ranges


def rice_by_the_page(coded: bytes, start: int, length: int, form: int, count: int) -> list[list[int]]:
    """The Golomb-Rice coder as the page tells it, character by character."""
    width, bits = form % 64, "".join(f"{byte:08b}"[::-1] for byte in coded)
    remainders = [bits[width * n : width * (n + 1)][::-1] for n in range(count)]
    quotients = re.findall("0*1", bits[-(-width * count // 8) * 8 :])
    others, mark = "01" if form >= 64 else "10"
    places = ""
    for quotient, remainder in zip(quotients, remainders, strict=True):
        places += others * ((len(quotient) - 1 << width) + int(remainder or "0", 2)) + mark
    places = places.ljust(length, others)
    return [[start + found.start(), start + found.end()] for found in re.finditer("1+", places)]


@pytest.mark.parametrize("vector", ENVELOPES, ids=lambda vector: vector["name"])
def test_the_page_alone_is_enough_to_read_an_envelope(vector: Vector) -> None:
    payload, offset, fields = unpacked_by_the_page(vector["metadata"]), vector["offset"], vector["fields"]
    assert payload.hex() == vector["payload"]
    assert int.from_bytes(payload[:4], "big") == zlib.crc32(offset.to_bytes(8, "big") + payload[4:])
    envelope = message_classes()["Envelope"].FromString(payload[4:])
    assert envelope.epoch == fields.get("epoch", 0)
    assert bool(envelope.flags & 1) == fields.get("detached", False)
    assert envelope.head_ingested_at_ms == fields.get("head_ingested_at_ms", 0)
    assert envelope.HasField("oldest_ingested_at_ms") == ("oldest_ingested_at_ms" in fields)
    assert ranges_by_the_page(envelope.cursor[0].done, offset) == fields.get("done", [])
    assert ranges_by_the_page(envelope.rejected, offset) == fields.get("rejected", [])
    assert ranges_by_the_page(envelope.expired, offset) == fields.get("expired", [])
    assert [[one.lane, one.share] for one in envelope.lane] == fields.get("lanes", [])
    for cursor, stored in zip(envelope.cursor[1:], fields.get("cursors", []), strict=True):
        base = offset + cursor.base_distance
        assert (base, base - cursor.behind) == (stored["base"], stored["start"])
        assert ranges_by_the_page(cursor.done, base) == stored.get("done", [])


@pytest.mark.parametrize("vector", SPILLED, ids=lambda vector: vector["name"])
def test_the_format_of_a_record_beside_a_commit_is_stable(vector: Vector) -> None:
    stated, value, key = (
        decode(vector["offset"], vector["metadata"]).fields,
        bytes.fromhex(vector["value"]),
        vector["key"],
    )
    topic, partition, epoch, slot, group = key.split("/")
    place, fields = TopicPartition(topic, int(partition)), fields_of(vector["fields"])
    assert read_spilled(group, place, stated, key.encode(), value) == fields
    record = spilled(group, place, fields, int(slot))
    assert (record.key.decode(), record.value) == (key, value)
    message = message_classes()["Envelope"].FromString(unpacked_by_the_page(vector["metadata"])[4:])
    assert (message.epoch, message.spill.slot, message.spill.size) == (int(epoch), int(slot), len(value))
    assert (
        value[:4]
        == message.spill.checksum.to_bytes(4, "big")
        == zlib.crc32(key.encode() + value[4:]).to_bytes(4, "big")
    )
    base = int.from_bytes(value[4:12], "big")
    whole = message_classes()["Envelope"].FromString(value[12:])
    assert (base, ranges_by_the_page(whole.cursor[0].done, base)) == (fields.base, vector["fields"]["done"])
    assert fields.claims.count - stated.claims.count == message.spill.done


# --- the page's tables


def envelope_table() -> str:
    """The table of envelopes as the page shows it."""
    rows = ["| Name | Offset | Says, beside the base | Payload (hex) | Metadata |", "|---|---|---|---|---|"]
    for vector in ENVELOPES:
        says = json.dumps({name: value for name, value in vector["fields"].items() if name != "base"})
        rows.append(
            f"| {vector['name']} | {vector['offset']} | `{says}` | `{vector['payload']}` | `{vector['metadata']}` |"
        )
    return "\n".join(rows)


def refused_table() -> str:
    """The table of other metadata as the page shows it."""
    rows = ["| Name | Offset | Kind | Metadata |", "|---|---|---|---|"]
    rows += [f"| {one['name']} | {one['offset']} | {one['kind']} | `{one['metadata'] or ' '}` |" for one in REFUSED]
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("name", "table"), [("envelopes", envelope_table()), ("refused", refused_table()), ("spilled", spilled_table())]
)
def test_the_page_shows_the_vectors(name: str, table: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    _, _, rest = page.partition(f"<!-- vectors: {name} -->\n")
    shown, mark, _ = rest.partition("\n<!-- end -->")
    assert mark, f"the page has no table of {name}"
    assert shown == table, f"the page's table of {name} should read:\n{table}"
