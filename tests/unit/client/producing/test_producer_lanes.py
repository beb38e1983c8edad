"""A producer that writes to some lanes only: it says so, and keeps to it."""

import pytest

from braid.client.producing.settings import ProducerSettings
from braid.kernel.errors import Invalid
from tests.support.scripted_control import two_clusters, virtual


@virtual
async def test_a_producer_of_some_lanes_says_so_and_refuses_others() -> None:
    """Channels of other lanes do not wait for it."""
    async with two_clusters() as (control, _, mesh):
        async with mesh._make_producer("logs", ProducerSettings(lanes=("dlq",))) as producer:
            with pytest.raises(Invalid, match="writes to dlq only, not to live"):
                await producer.send(b"x", lane="live")
        async with mesh.producer("logs") as producer:
            await producer.send(b"x", lane="live")
        assert [list(hello.lanes) for hello in control.producers] == [["dlq"], []]
