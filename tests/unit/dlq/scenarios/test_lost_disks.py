"""Dead letters of clusters that returned without their disks: what is gone holds nothing up."""

from pathlib import Path

import pytest

from braid.api.dlq.v1.replay_pb2 import REPLAY_STATE_DONE
from braid.kernel.limits.client import DLQ_UNKNOWN_SECONDS
from braid.kernel.limits.dlq import DLQ_LOOK_SECONDS
from tests.support.virtual_time import run_virtual
from tests.unit.dlq.mesh import Mesh


@pytest.mark.parametrize("replaced", [True, False])
def test_a_drained_channel_lost_with_its_disk_delays_no_replay(tmp_path: Path, replaced: bool) -> None:
    """With a new cluster id the registry retires it; with the same id nobody tells, and it is awaited for a while."""

    async def scene() -> None:
        mesh = await Mesh(tmp_path).start()
        await mesh.park(3)
        await mesh.indexed(3)
        await mesh.move_letters()
        east = mesh.kafka.named("east")
        east.kill()
        await mesh.host.clock.sleep(DLQ_LOOK_SECONDS * 3)
        east.empty(replaced=replaced)
        east.start()

        async def all_indexed() -> bool:
            return not (await mesh.letters()).catching_up

        if not replaced:
            await mesh.host.clock.sleep(DLQ_UNKNOWN_SECONDS / 2)
            assert not await all_indexed(), "a topic that is only not known yet is waited for"
        await mesh.until(all_indexed, DLQ_UNKNOWN_SECONDS * 4)
        await mesh.park(2, first=10)
        await mesh.until(all_indexed)
        job = (await mesh.replay(filter="id='01ARZ:11'")).id

        async def done() -> bool:
            return (await mesh.job(job)).status.state == REPLAY_STATE_DONE

        await mesh.until(done)
        assert not mesh.failures

    run_virtual(scene())
