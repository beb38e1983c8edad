"""The filter of records: `json.level=error and (key=a or header.tenant~acme) and time>=2026-11-01T10:00`.

Its grammar is `braid.kernel.filters.grammar`'s. `json.a.b.0` is a place in a value that is JSON, or was decoded. Two
numbers are compared as numbers, anything else as text. What a record lacks equals nothing, and is not less or more
than anything. There are no regular expressions: a sender and a reader together could make one run for hours. Pure.
"""

import json
from collections.abc import Callable
from typing import Final, NamedTuple

from braid.client.records.braid_headers import ID_HEADER
from braid.kernel.filters.grammar import Comparison, Filter, Vocabulary, parse
from braid.kernel.filters.matching import contains, in_order, one_matches, satisfied
from braid.kernel.limits.client import FILTER_PARSED_BYTES
from braid.kernel.ports import KafkaRecord

HEADER: Final = "header."
PATH: Final = "json."
VOCABULARY: Final = Vocabulary(
    ("key", "value", "id", "lane", "cluster"),
    ("partition", "offset", "size", "time"),
    (HEADER,),
    (PATH,),
    example="json.level=error and header.tenant=acme and time>=2026-11-01T10:00",
)


class _NoJson:
    pass


NO_JSON: Final = _NoJson()


class Candidate(NamedTuple):
    """A record that a filter is asked about. `parsed` gives its value as JSON has it, or `NO_JSON`."""

    lane: str
    cluster: str
    partition: int
    record: KafkaRecord
    parsed: Callable[[], object]


def json_of(data: bytes | None) -> object:
    """The value that bytes are the JSON of; `NO_JSON` where they are none, or too many, or nested too deep."""
    if data is None or len(data) > FILTER_PARSED_BYTES:
        return NO_JSON
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return NO_JSON


def parse_predicate(text: str, field: str) -> Filter:
    """Parses a filter of records; an empty text matches every record. Raises `Invalid`, which points at the place."""
    return parse(text, VOCABULARY, field)


def matches(filter: Filter, candidate: Candidate) -> bool:
    """Whether a filter matches a record."""
    return satisfied(filter, lambda test: _compare(test, candidate))


def _compare(test: Comparison, candidate: Candidate) -> bool:
    if isinstance(test.value, int):
        return in_order(test.operator, _number(test.field, candidate), test.value)
    path = test.name_after(PATH)
    if path:
        found = _at(candidate.parsed(), path)
        return test.operator == "!=" if found is NO_JSON else _compare_any(test.operator, found, test.value)
    return one_matches(test.operator, _texts(test, candidate), test.value)


def _number(field: str, candidate: Candidate) -> int:
    record = candidate.record
    match field:
        case "partition":
            return candidate.partition
        case "offset":
            return record.offset
        case "time":
            return record.timestamp
        case _:
            return len(record.value or b"")


def _texts(test: Comparison, candidate: Candidate) -> tuple[str, ...]:
    """The texts that a field has in a record; a comparison matches if any of them does."""
    name = test.name_after(HEADER)
    if name:
        return tuple(_text(value) for header, value in candidate.record.headers if header == name)
    match test.field:
        case "lane":
            return (candidate.lane,)
        case "cluster":
            return (candidate.cluster,)
        case "id":
            return tuple(_text(value) for header, value in candidate.record.headers if header == ID_HEADER)
        case _:
            data = candidate.record.key if test.field == "key" else candidate.record.value
            return () if data is None else (_text(data),)


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", "replace")


def _at(value: object, path: str) -> object:
    """The value at a dotted path of names and places in lists; `NO_JSON` where there is none."""
    for step in path.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isascii() and step.isdecimal() and int(step[:9]) < len(value):
            value = value[int(step[:9])]
        else:
            return NO_JSON
    return value


def _compare_any(sign: str, found: object, value: str) -> bool:
    text = _scalar(found)
    if sign == "~":
        return contains(text, value)
    if isinstance(found, int | float) and not isinstance(found, bool):
        try:
            return in_order(sign, found, float(value))
        except ValueError:
            return sign == "!="
    return in_order(sign, text, value)


def _scalar(found: object) -> str:
    if found is None or isinstance(found, bool):
        return {None: "null", True: "true", False: "false"}[found]
    return str(found)
