"""Producers among clusters that fail at random lose nothing that they reported as sent."""

import asyncio

import pytest

from braid.client.producing.channel_sender import ChannelSender
from braid.client.producing.dispatcher import Dispatcher
from braid.client.producing.outbox import Pending
from braid.client.producing.routes import RouteTable
from braid.client.records.outgoing import Receipt
from braid.kernel.errors import BraidError
from braid.kernel.ports import Written
from tests.support.scripted_control import Control, ids, settled
from tests.support.virtual_time import run_virtual


async def faulty_run(seed: int) -> tuple[list[Receipt], set[str], int]:
    """Random deaths, returns and moves under load; returns receipts, the ids in all logs, and how many failed."""
    control = await Control(seed=seed).start()
    dice = control.process.host.randomness
    control.latency = lambda: dice.uniform(0.0, 0.01)
    control.add_channel("logs/live/1", "east")
    await control.move("logs/live/1")
    current, generation, cluster = "logs/live/1", 1, "east"
    async with control.client("web").mesh as mesh, mesh.producer("logs", delivery_timeout_seconds=60) as producer:
        sending = []
        for step in range(12):
            keys = [b"%d" % int(dice.uniform(0, 5)) for _ in range(20)]
            sending += [asyncio.ensure_future(producer.send(b"%d" % step, key=key)) for key in keys]
            await asyncio.sleep(dice.uniform(0, 0.3))
            planned = dice.uniform(0, 1) < 0.4
            if not planned:
                control.clusters[cluster].kill()
                await asyncio.sleep(dice.uniform(0, 0.5))
            for name in control.clusters:
                if name != cluster and dice.uniform(0, 1) < 0.8:
                    control.clusters[name].start()
            cluster = "west" if cluster == "east" else "east"
            generation += 1
            dropped = {current: planned}
            current = f"logs/live/{generation}"
            control.add_channel(current, cluster)
            await control.move(current, dropped=dropped)
        for each in control.clusters.values():
            each.start()
        outcomes = await settled(sending)
    receipts = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
    written = {identity for channel in control.channels for identity in ids(control, channel)}
    return receipts, written, len(outcomes) - len(receipts)


@pytest.mark.parametrize("seed", range(12))
def test_no_acknowledged_record_is_lost_whatever_fails(seed: int) -> None:
    receipts, written, failed = run_virtual(faulty_run(seed))
    assert {receipt.id for receipt in receipts} <= written
    assert len({receipt.id for receipt in receipts}) == len(receipts)
    assert failed == 0, "every cluster is back in time, so every record arrives"


def test_a_producer_reporting_unacknowledged_records_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    offer, send = ChannelSender.offer, ChannelSender.send

    def offer_and_believe(self: ChannelSender, record: Pending, partition: int) -> bool:
        taken = offer(self, record, partition)
        if taken:
            self._settled(self, record, Written(self.channel.topic, partition, 0, 0))
        return taken

    async def send_and_believe(self: ChannelSender, record: Pending, partition: int) -> None:
        await send(self, record, partition)
        self._settled(self, record, Written(self.channel.topic, partition, 0, 0))

    monkeypatch.setattr(ChannelSender, "offer", offer_and_believe)
    monkeypatch.setattr(ChannelSender, "send", send_and_believe)
    receipts, written, _ = run_virtual(faulty_run(0))
    assert not {receipt.id for receipt in receipts} <= written


def test_a_producer_that_sends_nothing_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    resend = Dispatcher._resend

    async def forget_and_open(self: Dispatcher, route: RouteTable) -> None:
        for record in [record for record in self._outbox if record.channel is None]:
            self._outbox.remove(record)
            record.future.set_exception(BraidError("forgotten"))
        await resend(self, route)

    monkeypatch.setattr(Dispatcher, "_resend", forget_and_open)
    assert run_virtual(faulty_run(0))[2] > 0
