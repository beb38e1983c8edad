"""The part of a traceback that a dead letter keeps: all, its ends, a digest that groups like failures, or nothing."""

import asyncio
import re
from collections.abc import Callable
from functools import partial

import pytest

from braid.client.consumer_settings import Retry
from braid.client.handling.tracebacks import shown_traceback
from braid.client.records.record import Record
from braid.host.tracebacks import TRACEBACKS, tracebacks_of
from braid.kafka.memory.log import NewRecord
from braid.kernel.errors import Invalid
from braid.kernel.limits.client import DEAD_LETTER_CUT_LINE_CHARACTERS_MAX, DEAD_LETTER_CUT_LINES
from braid.kernel.ports import TopicPartition
from services.dlq.model.letters import traceback_of
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import LIVE, TOPIC, bench, member

SECRET = "planted-4711"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def parse(text: str) -> int:
    return int(text)


def other(text: str) -> float:
    return float(text)


def failure(text: str, how: Callable[[str], object] = parse) -> Exception:
    """An error that was raised some calls deep, and says what it was raised about."""
    try:
        how(text)
    except ValueError as error:
        return error
    raise AssertionError("it parses")


def deep(depth: int) -> Exception:
    """An error of a recursion."""

    def again(left: int) -> None:
        if left == 0:
            raise ValueError("deep")
        again(left - 1)

    try:
        again(depth)
    except ValueError as error:
        return error
    raise AssertionError("it raises")


class Hostile(Exception):
    """An error without words: asked for them, it raises."""

    def __str__(self) -> str:
        raise RuntimeError(SECRET)


def test_all_is_kept_by_default() -> None:
    said = shown_traceback(failure(SECRET), "full")
    assert said.startswith("Traceback (most recent call last):\n") and said.count("File ") == 2
    assert said.endswith(f"'{SECRET}'\n")


def test_the_middle_is_cut_and_so_are_long_lines() -> None:
    first, last = DEAD_LETTER_CUT_LINES
    lines = shown_traceback(failure("x" * 10_000, lambda text: [parse(text) for _ in "1"]), "cut").splitlines()
    assert len(lines) == first + 1 + last and lines[first].startswith("… ")
    assert max(map(len, lines)) <= DEAD_LETTER_CUT_LINE_CHARACTERS_MAX
    assert lines[0] == "Traceback (most recent call last):" and lines[-1].startswith("ValueError: invalid literal")


def test_what_is_short_is_not_cut() -> None:
    assert shown_traceback(ValueError("short"), "cut") == "ValueError: short"


def test_like_failures_have_one_digest_whatever_they_say() -> None:
    one, two = (shown_traceback(failure(f"{SECRET}-{number}"), "hash") for number in (1, 2))
    assert one == two and DIGEST.fullmatch(one)


def test_failures_elsewhere_or_of_another_kind_differ_in_digest() -> None:
    caused = RuntimeError("wrapped")
    caused.__cause__ = failure("a")
    group = ExceptionGroup("some", [failure("a"), failure("b")])
    errors = [failure("a"), failure("a", other), ValueError("a"), KeyError("a"), caused, group, deep(1)]
    assert len({shown_traceback(each, "hash") for each in errors}) == len(errors)


def test_a_recursion_has_one_digest_however_deep_it_went() -> None:
    assert shown_traceback(deep(3), "hash") == shown_traceback(deep(300), "hash")


@pytest.mark.parametrize("form", TRACEBACKS)
def test_an_error_that_cannot_be_formatted_breaks_nothing(form: str) -> None:
    loop = ValueError("a loop")
    loop.__cause__ = loop
    for error in (Hostile(), loop, ExceptionGroup("some", [Hostile(), loop])):
        assert len(shown_traceback(error, form)) < 10_000


@pytest.mark.parametrize("form", TRACEBACKS)
def test_a_letter_says_what_was_asked_and_dlq_reads_it(form: str) -> None:
    virtual(partial(letter_is_as_asked, form))()


async def letter_is_as_asked(form: str) -> None:
    async def fails(record: Record) -> None:
        parse(SECRET)

    async with bench() as at:
        await at.control.move(LIVE, "logs/bulk/1", "logs/dlq/1")
        at.control.clusters["east"].append(TopicPartition(TOPIC, 0), [NewRecord(0, None, b"x", ())])
        settings = {"retry": Retry(max_attempts=1), "dead_letter_tracebacks": form}
        async with member(at, "m", f"{LIVE}/0", **settings) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(fails))
            await until(lambda: bool(at.control.records("logs/dlq/1")))
        await running
    [copy] = at.control.records("logs/dlq/1")
    kept = dict(copy.headers)["braid-dl-traceback"].decode()
    assert (SECRET in kept) is (form in ("full", "cut"))
    assert bool(DIGEST.fullmatch(kept)) is (form == "hash") and (not kept) is (form == "none")
    assert traceback_of(copy.headers) == kept
    assert dict(copy.headers)["braid-dl-error-class"] == b"ValueError", "what letters are grouped and replayed by"


def test_the_environment_says_it_where_no_argument_does() -> None:
    assert tracebacks_of({}) == "full"
    assert tracebacks_of({"BRAID_DEAD_LETTER_TRACEBACKS": "hash"}) == "hash"
    with pytest.raises(Invalid) as refused:
        tracebacks_of({"BRAID_DEAD_LETTER_TRACEBACKS": "short"})
    assert refused.value.field == "BRAID_DEAD_LETTER_TRACEBACKS" and "'cut'" in refused.value.remedy
