"""Sent letters ⇄ columns (`events.proto`): a letter takes about eight bytes of a job's history. No rules."""

from collections.abc import Sequence
from itertools import groupby, islice

from braid.api.dlq.v1 import events_pb2 as pb
from braid.kernel.errors import Invalid
from services.dlq.model.letters import Cursor
from services.dlq.model.sent_letters import SentLetter, SentTarget


def sent_letters_message(letters: Sequence[SentLetter]) -> pb.SentLetters:
    """Letters sorted by cursor as columns."""
    message = pb.SentLetters()
    targets: dict[SentTarget, int] = {}
    offsets: dict[SentTarget, int] = {}
    for (generation, partition), group in groupby(letters, key=lambda each: each.cursor[:2]):
        run, before = list(group), 0
        message.runs.add(generation=generation, partition=partition, letters=len(run))
        for cursor, mark, target, offset in run:
            message.letter_steps.append(cursor.offset - before)
            message.target.append(targets.setdefault(target, len(targets)))
            message.offset_steps.append(offset - offsets.get(target, 0))
            message.marks.append(mark)
            before, offsets[target] = cursor.offset, offset
    message.targets.extend(pb.SentTarget(**target._asdict()) for target in targets)
    return message


def read_sent_letters(message: pb.SentLetters) -> tuple[SentLetter, ...]:
    """Reads `sent_letters_message`'s message. Raises `Invalid` for columns of different lengths."""
    columns = (message.letter_steps, message.target, message.offset_steps, message.marks)
    count = len(message.letter_steps)
    if sum(run.letters for run in message.runs) != count or any(len(column) != count for column in columns):
        raise Invalid("columns of sent letters differ in length", field="sent_letters")
    places = _places(message)
    targets = [_target(each) for each in message.targets]
    offsets = [0] * len(targets)
    found: list[SentLetter] = []
    for place, _, target, step, mark in zip(places, *columns, strict=True):
        if not 0 <= target < len(targets):
            raise Invalid(f"a sent letter names target {target} of {len(targets)}", field="sent_letters")
        offsets[target] += step
        found.append(SentLetter(place, mark, targets[target], offsets[target]))
    return tuple(found)


def _places(message: pb.SentLetters) -> list[Cursor]:
    places: list[Cursor] = []
    steps = iter(message.letter_steps)
    for run in message.runs:
        offset = 0
        for step in islice(steps, max(run.letters, 0)):
            offset += step
            places.append(Cursor(run.generation, run.partition, offset))
    return places


def _target(message: pb.SentTarget) -> SentTarget:
    return SentTarget(
        message.cluster,
        message.topic,
        message.partition,
        message.topic_id,
        message.leader_epoch,
        message.group,
        message.resets,
    )
