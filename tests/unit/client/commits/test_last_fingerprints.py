"""The log fingerprint in a last commit: asked for once if its base was foreseen, again if it was not."""

import asyncio
from typing import cast

from braid.client.commits.last_fingerprints import LastFingerprints
from braid.client.delivery.lease_work import LeaseWork
from braid.client.delivery.ready_queue import ReadyQueue
from braid.kernel.errors import ClusterUnavailable
from braid.kernel.ports import Fingerprint, KafkaAdmin, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.tracker import Progress
from tests.support.scripted_control import virtual
from tests.unit.client.delivery.test_cursor import fetched, taken, work_of

ANSWER_SECONDS = 0.1


class Answering:
    """A cluster that takes a while, or is away."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.away = False

    async def fingerprint(self, partition: TopicPartition, offset: int) -> Fingerprint:
        self.asked.append(offset)
        await asyncio.sleep(ANSWER_SECONDS)
        if self.away:
            raise ClusterUnavailable("it is away")
        return _below(offset)


def _below(offset: int) -> Fingerprint:
    return Fingerprint(bytes(16), 1, offset)


def _drained_with_two_out() -> LeaseWork:
    ready = ReadyQueue({})
    work = work_of(ready)
    work.begin(Progress(0), bytes(16))
    work.head.accept(fetched(0, 1, 2))
    taken(ready, 2)
    work.drain()
    return work


@virtual
async def test_a_foreseen_base_is_asked_for_once_during_the_work() -> None:
    admin = Answering()
    prints, work = LastFingerprints(cast("KafkaAdmin", admin)), _drained_with_two_out()
    prints.foresee(work)
    await asyncio.sleep(2 * ANSWER_SECONDS)
    for base in (2, 3):
        added = await prints.added_to(EnvelopeFields(base), work)
        assert (added.base, added.fingerprint) == (base, _below(base))
    assert admin.asked == [2, 3], "the second was not foreseen"


@virtual
async def test_a_lease_that_goes_waits_for_no_fingerprint() -> None:
    admin = Answering()
    prints, work = LastFingerprints(cast("KafkaAdmin", admin)), _drained_with_two_out()
    prints.foresee(work)
    await asyncio.sleep(0)
    adding = asyncio.ensure_future(prints.added_to(EnvelopeFields(2), work))
    await asyncio.sleep(0)
    prints.forget(work.lease.id)
    assert (await adding).fingerprint is None
    work.end()
    prints.foresee(work)
    prints.foresee(work_of(ReadyQueue({})))
    await asyncio.sleep(0)
    assert admin.asked == [2], "nothing is asked of a lease that is gone, or not restored"


@virtual
async def test_a_cluster_that_is_away_holds_up_no_last_commit() -> None:
    admin = Answering()
    admin.away = True
    prints, work = LastFingerprints(cast("KafkaAdmin", admin)), _drained_with_two_out()
    assert (await prints.added_to(EnvelopeFields(2), work)).fingerprint is None
