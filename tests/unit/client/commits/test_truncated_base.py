"""A control: a restore that trusts a commit beyond the end of a truncated log skips records written there
afterwards."""

import pytest

from braid.client.commits import restore
from braid.kernel.envelope import decode
from braid.kernel.ports import TopicPartition
from tests.support.scripted_control import virtual
from tests.unit.client.scripted_member import FIRST, TOPIC, bench, member, take

PLACE = TopicPartition(TOPIC, 0)
WRITTEN, LEFT = 500, 400


async def begins_after_a_truncation() -> int:
    """Where the work on a log goes on that lost the end of what a member had done of it."""
    async with bench() as at:
        at.fill(WRITTEN)
        async with member(at, "one", FIRST) as (consumer, _):
            for record in await take(consumer, WRITTEN):
                at.sunk(record)
                record.ack()
        cluster = at.control.kafka.process().cluster(at.control.clusters["east"].bootstrap, "")
        at.control.clusters["east"].truncate(PLACE, LEFT)
        return (await restore.restore("g", PLACE, cluster.offsets(), cluster.admin())).progress.base


@virtual
async def test_what_is_written_after_a_truncation_comes_first() -> None:
    assert await begins_after_a_truncation() == LEFT


def test_a_base_trusted_beyond_the_end_skips_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(claimed: restore.ClaimedProgress, bounds: restore.LogBounds) -> restore.SeenProgress:
        decoded = decode(claimed.committed.offset, claimed.committed.metadata)
        return restore.SeenProgress(claimed.committed, decoded, *bounds, claimed.below)

    monkeypatch.setattr(restore, "_seen", trusting)

    @virtual
    async def run() -> None:
        assert await begins_after_a_truncation() == WRITTEN

    run()
