"""A handler's error decides the fate of its record: a retry, an immediate dead letter, a skip, or a counted attempt."""

import asyncio
from collections import Counter
from itertools import pairwise

import pytest

from braid.client.consumer_settings import Retry
from braid.client.handling.error_kinds import ErrorKind, ErrorKinds
from braid.client.records.batch import Batch
from braid.client.records.record import Record
from braid.kernel.errors import Invalid, Reject, Retryable, Unavailable
from tests.support.consumer_parts import lease_work
from tests.support.scripted_control import until, virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, bench, killed, member

QUICK = (0.1, 0.2)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ValueError("bad"), ErrorKind.ANOTHER_ATTEMPT),
        (asyncio.CancelledError(), ErrorKind.ANOTHER_ATTEMPT),
        (Reject("not ours"), ErrorKind.REJECTED),
        (Retryable("away"), ErrorKind.NOT_ITS_FAULT),
        (Unavailable("away"), ErrorKind.ANOTHER_ATTEMPT),
    ],
)
def test_without_any_named_class(error: BaseException, kind: ErrorKind) -> None:
    assert ErrorKinds(Retry()).of(error) is kind


def test_the_nearest_named_class_counts_whichever_list_it_is_in() -> None:
    kinds = ErrorKinds(Retry(permanent=(FileNotFoundError, LookupError), retryable=(OSError, KeyError)))
    assert kinds.of(ConnectionResetError()) is ErrorKind.NOT_ITS_FAULT
    assert kinds.of(FileNotFoundError()) is ErrorKind.PERMANENT
    assert kinds.of(IndexError()) is ErrorKind.PERMANENT
    assert kinds.of(KeyError()) is ErrorKind.NOT_ITS_FAULT
    assert kinds.of(ValueError()) is ErrorKind.ANOTHER_ATTEMPT


def test_a_rule_for_everything_leaves_what_braid_names_itself() -> None:
    kinds = ErrorKinds(Retry(permanent=(Exception,)))
    assert kinds.of(ValueError()) is ErrorKind.PERMANENT
    assert kinds.of(Retryable("away")) is ErrorKind.NOT_ITS_FAULT
    assert kinds.of(Reject("not ours")) is ErrorKind.REJECTED
    assert ErrorKinds(Retry(permanent=(Retryable,))).of(Retryable("away")) is ErrorKind.PERMANENT


@pytest.mark.parametrize(
    ("field", "classes"),
    [
        ("permanent", {"permanent": ValueError}),
        ("retryable", {"retryable": (ValueError(),)}),
        ("retryable", {"permanent": (OSError,), "retryable": (OSError, KeyError)}),
    ],
)
def test_classes_are_checked_where_they_are_given(field: str, classes: dict[str, object]) -> None:
    with pytest.raises(Invalid) as refused:
        Retry(**classes)  # type: ignore[arg-type]  # what somebody may write
    assert refused.value.field == f"retry.{field}"


@virtual
async def test_each_record_goes_the_way_of_its_error() -> None:
    attempts: Counter[int] = Counter()

    async def handle(record: Record) -> None:
        attempts[record.offset] += 1
        match record.offset:
            case 0:
                raise ValueError("bad for ever")
            case 1:
                raise Reject("not ours")
            case 2 if attempts[2] < 9:
                raise ConnectionError("the database is away")
            case 3 if attempts[3] < 2:
                raise Retryable("later", after_seconds=7.0)
            case 4:
                raise LookupError("by attempts")
        at.sunk(record)

    async with bench() as at:
        at.fill(6)
        for gone in (0, 1, 4):
            at.watch.done("east", TOPIC, 0, gone)
        retry = Retry(max_attempts=3, backoff_seconds=QUICK, permanent=(ValueError,), retryable=(OSError,))
        async with member(at, "m", FIRST, retry=retry) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            began = asyncio.get_running_loop().time()
            await until(lambda: at.watch.base(TOPIC) == 6)
            assert asyncio.get_running_loop().time() - began >= 7.0
        await running
        assert attempts == {0: 1, 1: 1, 2: 9, 3: 2, 4: 3, 5: 1}
        assert sorted(letter.value or b"" for letter in at.control.records("logs/dlq/1")) == [b"0", b"4"]
        assert sorted(at.offsets()) == [2, 3, 5]


@virtual
async def test_the_next_holder_retries_blameless_records_uncounted() -> None:
    seen: list[int] = []

    async def handle(record: Record) -> None:
        seen.append(record.attempt)
        if len(seen) <= 5:
            raise Retryable("away")
        at.sunk(record)

    async with bench() as at:
        at.fill(1)
        retry = Retry(max_attempts=2, backoff_seconds=(0.5, 0.5))
        async with member(at, "m", FIRST, retry=retry) as (consumer, client):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: len(seen) == 3)
            await consumer.commit()
            client.kill()
            killed(consumer)
        running.cancel()
        async with member(at, "n", FIRST, retry=retry) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: at.watch.base(TOPIC) == 1)
        await running
        assert seen == [1] * 6
        assert at.control.records("logs/dlq/1") == []


@virtual
async def test_after_an_outage_a_record_has_all_its_attempts_still() -> None:
    began: list[float] = []

    async def handle(record: Record) -> None:
        began.append(asyncio.get_running_loop().time())
        if len(began) <= 6:
            raise Retryable("away")
        if len(began) <= 8:
            raise ValueError("its own fault")
        at.sunk(record)

    async with bench() as at:
        at.fill(1)
        retry = Retry(max_attempts=3, backoff_seconds=(0.5, 8.0))
        async with member(at, "m", FIRST, retry=retry) as (consumer, _):
            running = asyncio.ensure_future(consumer.run(handle))
            await until(lambda: at.watch.base(TOPIC) == 1)
            assert not lease_work(consumer, FIRST).head.failures
        await running
        assert at.control.records("logs/dlq/1") == []
        waits = [later - earlier for earlier, later in pairwise(began)]
        assert [0.25 * 2**n <= wait <= 0.5 * 2**n + 0.1 for n, wait in enumerate(waits[:5])] == [True] * 5


@virtual
async def test_rows_that_failed_together_leave_nothing_when_done() -> None:
    async def handle(batch: Batch) -> None:
        if len(batch) > 1:
            raise ValueError("one of them")
        at.watch.done("east", TOPIC, 0, batch.records["offset"].to_pylist()[0])

    async with bench() as at:
        at.fill(20)
        async with member(at, "m", FIRST, retry=Retry(backoff_seconds=QUICK)) as (consumer, _):
            running = asyncio.ensure_future(consumer.run_batches(handle))
            await until(lambda: at.watch.base(TOPIC) == 20)
            assert not lease_work(consumer, FIRST).head.failures
        await running


def test_attempts_used_up_by_what_is_nobodys_fault_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control for the test before."""
    monkeypatch.setattr(Record, "postpone", Record.retry)
    with pytest.raises(AssertionError):
        test_after_an_outage_a_record_has_all_its_attempts_still()
