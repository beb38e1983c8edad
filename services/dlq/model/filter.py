"""The filter language for dead letters: `error=ValueError and (group=a or group=b) and time>=2026-11-01T10:00`.

Its grammar is `braid.kernel.filters.grammar`'s. The fields are error, message, group, lane, key, id, attempts, time,
partition and header.NAME. `=` and `!=` compare whole texts; `error` also matches the last part of a dotted class name.
`~` means "contains" and ignores case. `<` and `>` apply to `attempts`, `partition` and `time` (ISO 8601; UTC if no
zone is given). A header that a letter lacks equals nothing. Pure.
"""

from typing import Final

from braid.kernel.filters.grammar import Comparison, Filter, Vocabulary, parse
from braid.kernel.filters.matching import in_order, one_matches, satisfied
from services.dlq.model.letters import Letter

TEXT_FIELDS: Final = ("error", "message", "group", "lane", "key", "id")
NUMBER_FIELDS: Final = ("attempts", "partition", "time")
HEADER: Final = "header."
VOCABULARY: Final = Vocabulary(
    TEXT_FIELDS,
    NUMBER_FIELDS,
    (HEADER,),
    example="error=ValueError and group=indexer and time>=2026-11-01T10:00",
)


def parse_filter(text: str, field: str) -> Filter:
    """Parses a filter; an empty text matches every letter.

    Args:
        text: The filter.
        field: What the request calls it, for errors.

    Raises:
        Invalid: the text does not parse; the message points at the place.
    """
    return parse(text, VOCABULARY, field)


def matches(filter: Filter, letter: Letter) -> bool:
    """Whether a filter matches a letter."""
    return satisfied(filter, lambda test: _compare(test, letter))


def _compare(test: Comparison, letter: Letter) -> bool:
    if isinstance(test.value, int):
        numbers = {"attempts": letter.attempts, "partition": letter.origin.partition, "time": letter.time_ms}
        return in_order(test.operator, numbers[test.field], test.value)
    return one_matches(test.operator, _texts(test, letter), test.value)


def _texts(test: Comparison, letter: Letter) -> tuple[str, ...]:
    """The texts a field has in a letter; a comparison matches if any of them does."""
    header = test.name_after(HEADER)
    if header:
        return tuple(value for name, value in letter.headers if name == header)
    match test.field:
        case "error":
            return (letter.error_class, letter.error_name)
        case "message":
            return (letter.error_message,)
        case "group":
            return (letter.group,)
        case "lane":
            return (letter.origin.lane,)
        case "key":
            return () if letter.key is None else (letter.key.decode("utf-8", "replace"),)
        case _:
            return (letter.record_id,)
