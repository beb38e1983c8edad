"""The producer against a scripted registry and clusters in memory: what is reported as sent lies in a log."""

import asyncio
from itertools import pairwise

import pytest

from braid.client.producing.channel_sender import ChannelSender
from braid.client.producing.dispatcher import Dispatcher
from braid.client.producing.routes import RouteTable
from braid.client.records.outgoing import Outgoing, Receipt
from braid.kernel.errors import DeliveryUnknown, Invalid, NotFound, RecordTooLarge
from braid.kernel.limits.client import PLANNED_MOVE_PREPARE_SECONDS
from tests.support.scripted_control import Control, ids, settled, two_clusters, until, virtual
from tests.support.virtual_time import run_virtual


def values(control: Control, channel: str, key: bytes) -> list[bytes | None]:
    """Values of one key, in the order of its partition."""
    return [record.value for record in control.records(channel) if record.key == key]


@virtual
async def test_a_receipt_says_where_the_record_lies() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        receipt = await producer.send(b"hello", key=b"k", headers={"h": b"v"}, timestamp=17)
        assert (receipt.cluster, receipt.topic, receipt.offset) == ("east", "braid.logs.live.1", 0)
        assert receipt.id == f"{producer.id}:1"
        [record] = control.records("logs/live/1")
        assert (record.key, record.value, record.timestamp) == (b"k", b"hello", 17)
        headers = dict(record.headers)
        assert (headers["h"], headers["braid-id"], headers["braid-lane"]) == (b"v", receipt.id.encode(), b"live")
        assert producer.buffered_bytes == 0


@virtual
async def test_the_first_channels_of_a_new_stream_are_waited_for() -> None:
    async with two_clusters() as (control, _, mesh):
        await control.move()

        async def send() -> Receipt:
            async with mesh.producer("logs") as producer:
                return await producer.send(b"early")

        sending = asyncio.ensure_future(send())
        await asyncio.sleep(1.0)
        assert not sending.done()
        await control.move("logs/live/1")
        assert (await sending).topic == "braid.logs.live.1"


@virtual
async def test_send_many_keeps_the_order_of_a_key() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        receipts = await producer.send_many(Outgoing(b"%d" % n, key=b"k") for n in range(500))
        assert [receipt.offset for receipt in receipts] == list(range(500))
        assert values(control, "logs/live/1", b"k") == [b"%d" % n for n in range(500)]


@virtual
async def test_concurrent_sends_of_a_key_are_written_in_call_order() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await asyncio.gather(*(producer.send(b"%d" % n, key=b"k") for n in range(100)))
        assert values(control, "logs/live/1", b"k") == [b"%d" % n for n in range(100)]


@virtual
async def test_an_unplanned_move_sends_again_under_the_same_id() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before", key=b"k")
        control.clusters["east"].kill()
        sending = [asyncio.ensure_future(producer.send(b"%d" % n, key=b"k")) for n in range(20)]
        await asyncio.sleep(1.0)
        assert not any(each.done() for each in sending)
        revision = await control.move("logs/live/2", dropped={"logs/live/1": False})
        receipts = await asyncio.gather(*sending)
        assert {receipt.cluster for receipt in receipts} == {"west"}
        assert [receipt.id for receipt in receipts] == ids(control, "logs/live/2")
        assert values(control, "logs/live/2", b"k") == [b"%d" % n for n in range(20)]
        assert control.acknowledged[-1] == (producer.id, revision)


@virtual
async def test_new_records_of_a_key_wait_behind_those_sent_again() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before", key=b"k")
        control.clusters["east"].kill()
        sending = [asyncio.ensure_future(producer.send(b"%d" % n, key=b"k")) for n in range(10)]
        await asyncio.sleep(0.5)
        await control.move("logs/live/2", dropped={"logs/live/1": False})
        await asyncio.sleep(0.05)  # within the grace
        sending += [asyncio.ensure_future(producer.send(b"%d" % n, key=b"k")) for n in range(10, 20)]
        await asyncio.gather(*sending)
        assert values(control, "logs/live/2", b"k") == [b"%d" % n for n in range(20)]


@virtual
async def test_a_planned_move_awaits_acknowledgements_without_repeats() -> None:
    control = await Control(latency=lambda: 0.05).start()
    control.add_channel("logs/live/1", "east")
    control.add_channel("logs/live/2", "west")
    await control.move("logs/live/1")
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        await producer.send(b"warm", key=b"k")
        sending = [asyncio.ensure_future(producer.send(b"%d" % n, key=b"k")) for n in range(20)]
        await asyncio.sleep(0.02)
        revision = await control.move("logs/live/2", dropped={"logs/live/1": True})
        receipts = await asyncio.gather(*sending)
        assert {receipt.cluster for receipt in receipts} == {"east"}
        await until(lambda: (producer.id, revision) in control.acknowledged)
        assert (await producer.send(b"after", key=b"k")).cluster == "west"
        assert ids(control, "logs/live/2") == [f"{producer.id}:22"]


async def longest_pause_in_a_planned_move() -> float:
    """Seconds between two acknowledgements, one record each 5 ms, every message 50 ms under way."""
    control = await Control(latency=lambda: 0.05).start()
    control.add_channel("logs/live/1", "east")
    control.add_channel("logs/live/2", "west")
    await control.move("logs/live/1")
    loop, moments, clusters = asyncio.get_running_loop(), list[float](), list[str]()
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:

        async def send(number: int) -> None:
            receipt = await producer.send(b"%d" % number, key=b"%d" % (number % 7))
            moments.append(loop.time())
            clusters.append(receipt.cluster)

        sending = list[asyncio.Future[None]]()
        for number in range(400):
            sending.append(asyncio.ensure_future(send(number)))
            await asyncio.sleep(0.005)
            if number == 100:
                await control.move("logs/live/2", dropped={"logs/live/1": True})
        await asyncio.gather(*sending)
        assert len(ids(control, "logs/live/1")) + len(ids(control, "logs/live/2")) == 400, "nothing is repeated"
    assert clusters == sorted(clusters), "west only after east"
    return max(after - before for before, after in pairwise(moments[10:]))


def test_a_planned_move_awaits_old_answers_but_no_connection() -> None:
    assert run_virtual(longest_pause_in_a_planned_move()) < 0.22, "one way there and back on each cluster"


def test_a_producer_that_connects_only_when_it_must_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def prepare_nothing(self: Dispatcher, route: RouteTable) -> None:
        """Connects to nobody."""

    monkeypatch.setattr(Dispatcher, "_prepare", prepare_nothing)
    assert run_virtual(longest_pause_in_a_planned_move()) > 0.28


@virtual
async def test_a_move_to_a_silent_cluster_keeps_the_old_channel_awhile() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before", key=b"k")
        control.clusters["west"].pause()
        revision = await control.move("logs/live/2", dropped={"logs/live/1": True})
        await asyncio.sleep(PLANNED_MOVE_PREPARE_SECONDS / 2)
        assert (await producer.send(b"meanwhile", key=b"k")).cluster == "east"
        assert (producer.id, revision) not in control.acknowledged
        await until(lambda: (producer.id, revision) in control.acknowledged)
        late = asyncio.ensure_future(producer.send(b"late", key=b"k"))
        await asyncio.sleep(1.0)
        assert not late.done()
        control.clusters["west"].resume()
        assert (await late).cluster == "west"


async def clusters_reported_after_the_acknowledgement() -> set[str]:
    """Where records are reported to lie that were in flight to a frozen cluster when its channel was dropped."""
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before")
        control.clusters["east"].pause()  # takes requests, answers none
        control.clusters["west"].pause()
        sending = [asyncio.ensure_future(producer.send(b"%d" % n)) for n in range(5)]
        await asyncio.sleep(0.5)
        revision = await control.move("logs/live/2", dropped={"logs/live/1": False})
        await until(lambda: (producer.id, revision) in control.acknowledged)
        control.clusters["east"].resume()  # now it writes what it took
        await asyncio.sleep(1.0)
        control.clusters["west"].resume()
        return {receipt.cluster for receipt in await asyncio.gather(*sending)}


def test_after_an_acknowledged_drop_nothing_is_reported_as_sent() -> None:
    assert run_virtual(clusters_reported_after_the_acknowledgement()) == {"west"}


def test_a_producer_that_acknowledges_before_it_left_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def leave_nothing(self: ChannelSender) -> None:
        self._left = False

    monkeypatch.setattr(ChannelSender, "leave", leave_nothing)
    assert "east" in run_virtual(clusters_reported_after_the_acknowledgement())


@virtual
async def test_a_full_buffer_makes_send_wait() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs", max_buffer_bytes=4_000) as producer:
        await producer.send(b"before")
        control.clusters["east"].kill()
        sending = [asyncio.ensure_future(producer.send(bytes(200))) for _ in range(50)]
        await asyncio.sleep(1.0)
        assert 2_000 < producer.buffered_bytes <= 4_000
        await control.move("logs/live/2", dropped={"logs/live/1": False})
        assert len({receipt.id for receipt in await asyncio.gather(*sending)}) == 50


@virtual
async def test_a_record_larger_than_the_buffer_fits_an_empty_one() -> None:
    async with two_clusters() as (_, __, mesh), mesh.producer("logs", max_buffer_bytes=10) as producer:
        receipts = await asyncio.gather(*(producer.send(bytes(500)) for _ in range(3)))
        assert len(receipts) == 3


@virtual
async def test_what_is_not_acknowledged_in_time_is_unknown() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs", delivery_timeout_seconds=2.0) as producer:
        await producer.send(b"before")
        control.clusters["east"].kill()
        with pytest.raises(DeliveryUnknown):
            await producer.send(b"lost?")
        assert producer.buffered_bytes == 0


@virtual
async def test_a_send_held_up_before_kafka_took_it_times_out_as_well() -> None:
    async with two_clusters() as (control, _, mesh):
        control.clusters["east"].kill()  # never reached at all: the Kafka client cannot start
        async with mesh.producer("logs", delivery_timeout_seconds=2.0) as producer:
            outcomes = await settled([asyncio.ensure_future(producer.send(b"%d" % n)) for n in range(3)])
            assert [type(outcome) for outcome in outcomes] == [DeliveryUnknown] * 3


@virtual
async def test_a_send_held_up_by_a_lane_without_channels_times_out() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs", delivery_timeout_seconds=2.0) as producer:
        await control.move(dropped={"logs/live/1": False})
        await asyncio.sleep(0.1)
        with pytest.raises(DeliveryUnknown):
            await producer.send(b"where to?")


@virtual
async def test_a_cancelled_send_leaves_nothing_behind() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before", key=b"k")
        control.clusters["east"].kill()
        cancelled = asyncio.ensure_future(producer.send(b"cancelled", key=b"k"))
        kept = asyncio.ensure_future(producer.send(b"kept", key=b"k"))
        await asyncio.sleep(0.5)
        cancelled.cancel()
        await asyncio.sleep(0.1)
        await control.move("logs/live/2", dropped={"logs/live/1": False})
        assert (await kept).cluster == "west"
        assert values(control, "logs/live/2", b"k") == [b"kept"]
        assert producer.buffered_bytes == 0


@virtual
async def test_a_newer_route_interrupts_an_older_change() -> None:
    control = await Control().start()
    for generation, cluster in enumerate(("east", "west", "east"), 1):
        control.add_channel(f"logs/live/{generation}", cluster)
    await control.move("logs/live/1")
    async with control.client("web").mesh as mesh, mesh.producer("logs") as producer:
        await producer.send(b"before", key=b"k")
        control.clusters["east"].kill()
        control.clusters["west"].kill()
        sending = [asyncio.ensure_future(producer.send(b"%d" % n, key=b"k")) for n in range(10)]
        await asyncio.sleep(0.5)
        await control.move("logs/live/2", dropped={"logs/live/1": False})
        await asyncio.sleep(1.0)  # the re-send hangs: west is dead as well
        control.clusters["east"].start()
        revision = await control.move("logs/live/3", dropped={"logs/live/1": False, "logs/live/2": False})
        receipts = await asyncio.gather(*sending)
        assert {receipt.topic for receipt in receipts} == {"braid.logs.live.3"}
        assert values(control, "logs/live/3", b"k") == [b"%d" % n for n in range(10)]
        await until(lambda: (producer.id, revision) in control.acknowledged)


@virtual
async def test_a_route_may_go_back_to_a_channel_just_left() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before", key=b"k")
        control.clusters["east"].pause()
        sending = [asyncio.ensure_future(producer.send(b"%d" % n, key=b"k")) for n in range(10)]
        await asyncio.sleep(0.5)
        await control.move("logs/live/2", dropped={"logs/live/1": False})
        await control.move("logs/live/1", dropped={"logs/live/2": True})
        control.clusters["east"].resume()
        receipts = await asyncio.gather(*sending)
        assert {receipt.cluster for receipt in receipts} == {"east"}
        written = values(control, "logs/live/1", b"k")
        assert written[-10:] == [b"%d" % n for n in range(10)]


@virtual
async def test_a_cluster_that_refuses_one_connection_is_tried_again() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        topic = control.channels["logs/live/1"].topic
        control.clusters["east"].delete_topic(topic)
        sending = asyncio.ensure_future(producer.send(b"x"))
        await asyncio.sleep(5.0)  # longer than a missing topic is believed to be on its way
        control.clusters["east"].create_topic(topic, 2, 1, {})
        assert (await sending).topic == topic


@virtual
async def test_a_stalled_cluster_is_reported() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before")
        control.clusters["east"].kill()
        sending = asyncio.ensure_future(producer.send(b"x"))
        await until(lambda: bool(control.reports))
        assert (control.reports[0].cluster, control.reports[0].count) == ("east", 1)
        sending.cancel()


@virtual
async def test_a_producer_keeps_its_last_route_without_a_registry() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before")
        control.network.kill("control")
        await asyncio.sleep(5.0)
        assert (await producer.send(b"after")).cluster == "east"


@virtual
async def test_a_reconnect_learns_and_acknowledges_the_missed_route() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        await producer.send(b"before")
        control.network.kill("control")
        revision = await control.move("logs/live/2", dropped={"logs/live/1": True}, push=False)
        await asyncio.sleep(1.0)
        await control.start()
        await until(lambda: (producer.id, revision) in control.acknowledged)
        assert (await producer.send(b"after")).cluster == "west"


@virtual
async def test_records_without_a_key_prefer_the_producers_zone() -> None:
    async with two_clusters(zone="b") as (control, _, mesh), mesh.producer("logs") as producer:
        await control.move("logs/live/1", "logs/live/2")
        await asyncio.sleep(0.1)
        receipts = await producer.send_many(Outgoing(bytes(2_000)) for _ in range(100))
        assert {receipt.cluster for receipt in receipts} == {"west"}
        assert {receipt.partition for receipt in receipts} == {0, 1}


@virtual
async def test_weights_hold_for_records_without_a_key() -> None:
    async with two_clusters() as (control, _, mesh), mesh.producer("logs") as producer:
        control.channels["logs/live/1"].weight = 0.9
        control.channels["logs/live/2"].weight = 0.1
        await control.move("logs/live/1", "logs/live/2")
        await asyncio.sleep(0.1)
        receipts = await producer.send_many(Outgoing(bytes(9_000)) for _ in range(600))
        share = sum(receipt.cluster == "west" for receipt in receipts) / len(receipts)
        assert 0.04 < share < 0.18


@virtual
async def test_bad_requests_get_precise_errors_and_change_nothing() -> None:
    async with two_clusters() as (control, _, mesh):
        with pytest.raises(Invalid, match="compression"):
            mesh.producer("logs", compression="lzma")
        async with mesh.producer("logs") as producer:
            with pytest.raises(NotFound, match="no lane 'bulk'"):
                await producer.send(b"x", lane="bulk")
            with pytest.raises(RecordTooLarge, match="max_record_bytes"):
                await producer.send(bytes(control.max_record_bytes))
            with pytest.raises(NotFound):
                await producer.send_many([Outgoing(b"fine"), Outgoing(b"x", lane="bulk")])
        with pytest.raises(Invalid, match="closed"):
            await producer.send(b"late")
        assert len(control.records("logs/live/1")) == 1


@virtual
async def test_leaving_the_context_awaits_answers_and_tells_the_truth() -> None:
    async with two_clusters() as (control, _, mesh):
        async with mesh.producer("logs") as producer:
            await producer.send(b"before")
            control.clusters["east"].kill()
            sending = asyncio.ensure_future(producer.send(b"x"))
            await asyncio.sleep(0.1)
        with pytest.raises(DeliveryUnknown):
            await sending
