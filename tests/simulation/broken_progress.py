"""Defects for mutants of cursors and of records beside commits."""

from collections.abc import Sequence

from braid.client.commits.spill import Spill
from braid.kernel.envelope.spill import TOPIC
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.cursors import CursorPart
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.tracker import Progress


def from_the_head(parts: Sequence[CursorPart], backlog_permille: int) -> EnvelopeFields:
    """States the live cursor's progress as if nothing lay behind it."""
    return parts[-1].fields


def without_gaps(part: CursorPart) -> Progress:
    """Goes on behind all that was done, as if nothing before it were left to do."""
    claims = part.fields.claims
    return Progress(part.fields.base if claims.end is None else max(part.fields.base, claims.end))


async def sent_at_once(self: Spill, place: TopicPartition, key: bytes, value: bytes | None) -> tuple[int, int]:
    """Does not wait for the record's acknowledgement, and guesses where it will lie."""
    producer = await self._open()
    await producer.send(TopicPartition(TOPIC, 0), value, key, (), 0)
    return 0, 0
