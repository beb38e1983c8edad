"""Parts of the chaos run that need no processes: decks, disks, how long work stood still, what its timeline shows."""

import asyncio
import struct
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

import braid
from braid.api.mesh.v1.event_pb2 import EventMetadata, EventRecord
from braid.api.registry.v1.events_pb2 import (
    ChannelPlanned,
    ChannelRef,
    ChannelWeight,
    RegistryEvent,
    TrafficMoved,
)
from braid.kernel.errors import ClusterUnavailable
from testbed.checkers import facts
from testbed.ground.disks import Disk, batches_in, records_in
from testbed.ground.field import Field, Mark, StuckError
from testbed.ground.journals import Line, SyncedLog
from testbed.ground.load import fate_of
from testbed.ground.quorum_log import METADATA_TOPIC
from tests.e2e.chaos.catalogue import FAULTS
from tests.e2e.chaos.commit import DIGITS, VARIABLE, commit_hash, seed_from
from tests.e2e.chaos.liveness import Act, excused, gaps, late, longest, stalls
from tests.e2e.chaos.plan import (
    ALWAYS,
    BROKERS,
    CLUSTERS,
    FURTHER,
    GROUNDS,
    LOSING,
    PLAIN,
    SEVERAL_BROKERS,
    SLICE_LARGE,
    SMALL,
    WHOLE,
    deck,
    slice_of,
)
from tests.e2e.chaos.producer import Sending
from tests.e2e.chaos.run import PROMISED, Report
from tests.e2e.chaos.series import SLICE_MS, Route, lag, routes, throughput
from tests.e2e.chaos.timeline import page_of

TOPIC: Final = "braid.orders.live.1"
LOG: Final = facts.LogId("east", TOPIC, 2)


# --- decks


@pytest.mark.parametrize("seed", range(5))
def test_a_deck_holds_every_fault_of_its_ground(seed: int) -> None:
    assert sorted(deck(seed)) == sorted([*SMALL, *CLUSTERS, *LOSING])
    assert sorted(deck(seed, SEVERAL_BROKERS)) == sorted([*deck(seed), *BROKERS])
    assert {name for ground in GROUNDS for name in deck(seed, ground)} == FAULTS.keys()
    assert deck(seed) == deck(seed)


def test_one_mesh_meets_all_but_single_broker_and_sqlite_faults() -> None:
    assert FAULTS.keys() - {*deck(1, WHOLE)} == {"broker's disk full", "store's disk full"}


@pytest.mark.parametrize("commit", ["0", "1a2b3c4d", "ffffffff", "f7cd256"])
def test_a_commit_s_slice_is_small_and_always_the_same(commit: str) -> None:
    ground, faults = slice_of(seed_from(commit))
    large = [name for name in faults if name not in SMALL]
    assert (ground, faults) == slice_of(seed_from(commit))
    assert sorted(name for name in faults if name in SMALL) == sorted(SMALL)
    assert {*ALWAYS} <= {*large} <= {*CLUSTERS, *LOSING, *FURTHER[ground]}
    assert len([name for name in large if name in LOSING]) == 1
    assert len(large) == len({*large}) <= SLICE_LARGE
    assert bool({*large} & {*FURTHER[ground]}) == (ground != PLAIN)


def test_every_fault_is_in_some_commit_s_slice() -> None:
    slices = [slice_of(seed_from(f"{number * 2_654_435_761 % 2**32:08x}")) for number in range(200)]
    assert {name for each in slices for name in each.faults} == FAULTS.keys()
    assert {each.ground for each in slices} == {*GROUNDS} - {WHOLE}


def test_a_slice_is_chosen_by_the_commit_or_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert len(commit_hash()) == DIGITS
    assert seed_from(commit_hash()) >= 0
    monkeypatch.setenv(VARIABLE, "1a2b3c4d5e6f")
    assert commit_hash() == "1a2b3c4d"


# --- load


async def test_two_records_in_three_have_a_key(tmp_path: Path) -> None:
    keys: list[bytes | None] = []

    class Taking:
        id = "0"

        async def send(self, value: bytes, *, key: bytes | None, lane: str) -> None:
            keys.append(key)
            raise ClusterUnavailable("it is only asked")

    async with SyncedLog(tmp_path / "log.jsonl") as log:
        sending = Sending("producer-0", log, asyncio.Event())
        sending._burst(cast(braid.Producer, Taking()))
        await asyncio.gather(*sending._sends)
    assert keys == [b"key-1", b"key-2", None, b"key-4", b"key-5", None]


# --- disks


def batch(first: int, *values: bytes) -> bytes:
    """A batch of records in the bytes that a broker writes."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1 << 20,
    )  # fmt: skip
    for number, value in enumerate(values):
        builder.append(number, timestamp=1_000 + number, key=b"k", value=value, headers=[])
    made = bytearray(builder.build())
    made[:8] = first.to_bytes(8, "big")
    return bytes(made)


def disk(directory: Path, *batches: bytes) -> Disk:
    """A disk with one log, and what else a broker leaves beside it."""
    data = directory / "clusters" / "east" / "data"
    (data / f"{TOPIC}-2").mkdir(parents=True)
    (data / f"{TOPIC}-2" / "00000000000000000000.log").write_bytes(b"".join(batches))
    (data / f"{TOPIC}-1.0a1b-delete").mkdir()
    (data / "another.topic-0").mkdir()
    return Disk(directory, "east", "braid.orders.", "billing")


def test_a_disk_tells_what_its_broker_wrote(tmp_path: Path) -> None:
    found = disk(tmp_path, batch(0, b"a", b"b"), batch(2, b"c"))
    assert found.logs() == [LOG]
    assert found.end(LOG) == 3
    expected = [(facts.Place(*LOG, offset), value) for offset, value in enumerate((b"a", b"b", b"c"))]
    told = [fact for _, fact in found.told() if isinstance(fact, facts.Appended)]
    assert [(fact.place, fact.value) for fact in told] == expected
    assert [at for at, _ in found.told()] == [1_000, 1_001, 1_000]


def test_a_log_is_cut_between_two_batches(tmp_path: Path) -> None:
    found = disk(tmp_path, batch(0, b"a", b"b"), batch(2, b"c"), batch(3, b"d", b"e"), batch(5, b"f"))
    cut = found.batch(LOG, 0.5)
    gone = [fact for _, fact in found.log_facts(LOG, cut.base_offset)]
    found.cut(LOG, cut)
    assert (cut.base_offset, found.end(LOG)) == (3, 3)
    assert [fact.value for fact in gone if isinstance(fact, facts.Appended)] == [b"d", b"e", b"f"]


def test_what_was_written_only_in_part_is_not_there() -> None:
    whole, torn = batch(0, b"a"), batch(1, b"b")[:-3]
    assert [each.base_offset for each in batches_in(whole + torn)] == [0]
    assert [each.value for each in records_in(whole + torn, TOPIC, 0)] == [b"a"]


def framed(kind: int, message: bytes) -> bytes:
    """A record of the metadata log in the bytes that a controller writes."""
    return bytes([1, kind, 0]) + message + b"\0"


def topic_record(name: str, number: int) -> bytes:
    """A topic is made."""
    return framed(2, bytes([len(name) + 1]) + name.encode() + struct.pack(">QQ", 0, number))


def test_a_disk_tells_which_topics_were_made_and_deleted(tmp_path: Path) -> None:
    found = disk(tmp_path)
    log = tmp_path / "clusters" / "east" / "data" / f"{METADATA_TOPIC}-0"
    log.mkdir()
    gone = framed(9, struct.pack(">QQ", 0, 1))
    records = (topic_record(TOPIC, 1), topic_record("another", 2), framed(3, b"what else there is"), gone)
    (log / "00000000000000000000.log").write_bytes(batch(0, *records))
    topic = facts.Topic("east", TOPIC)
    assert found.topic_changes() == [(1_000, facts.TopicCreated(topic)), (1_003, facts.TopicDeleted(topic))]
    (log / "00000000000000000004.log").write_bytes(batch(4, b"\x01\x02\x07"))
    with pytest.raises(ValueError, match="offset 4 has frame 1, kind 2, version 7"):
        found.topic_changes()


# --- how long work stood still


def sent_by(process: str, *times: int, lane: str = "live") -> list[Line]:
    """Acknowledgements; of what never waits."""
    topic = f"braid.orders.{lane}.1"
    return [Line(process, "acked", ms, value_of("poison"), "east", topic) for ms in times]


def standstill(lines: Sequence[Line], marks: Sequence[Mark] = (), acts: Sequence[Act] = ()) -> list[str]:
    """The standstills found in these lines."""
    return list(stalls(acts, gaps(lines, marks, lambda line: None)))


def act(fault: str, begin_ms: int, end_ms: int | None = None, given: float = 1.0) -> Act:
    """One of a deck."""
    return Act("deck", fault, begin_ms, end_ms, False, given)


def test_a_producer_without_an_acknowledgement_stands_still() -> None:
    lines = [*sent_by("producer-0", 0, 7_000, 8_000), *sent_by("producer-1", *range(0, 8_000, 500))]
    (said,) = standstill(lines, acts=[act("kill registry leader", 0, 8_000)])
    assert said == "producer-0 in lane live was without an acknowledgement for 7.0 s, during: kill registry leader"
    assert not standstill(lines, acts=[act("kill cluster", 0, 8_000)]), "what a lost cluster may cost"
    assert not standstill(lines, acts=[act("kill registry leader", 0, 8_000, given=0.5)]), "the machine gave half"
    assert not standstill(lines, acts=[act("kill registry leader", 0, 3_000), act("kill cluster", 3_000, 8_000)])
    assert not standstill(lines, [Mark("producer-0", "frozen", 100, 6_000)], [act("freeze producer", 0, 8_000)])
    assert standstill(lines, [Mark("producer-0", "frozen", 100, 900)], [act("freeze producer", 0, 8_000)])
    assert standstill(lines, acts=[act("kill registry leader", 0, 100)]), "what a fault left behind"


def test_a_stuck_producer_stands_still_but_an_ended_one_does_not() -> None:
    acts = [act("kill registry leader", 0)]
    on = sent_by("producer-1", *range(0, 9_000, 500))
    assert standstill([*sent_by("producer-0", 0, 500), *on], acts=acts)
    assert not standstill([*sent_by("producer-0", 0, 500), Line("producer-0", "ended", 600), *on], acts=acts)


def test_a_waiting_record_stalls_while_others_are_acknowledged() -> None:
    others = sent_by("producer-0", *range(0, 9_000, 500))
    value = value_of("poison", 1)
    lines = [*others, Line("producer-0", "sent", 1_000, value), replace(others[-1], ms=8_000, value=value)]
    (said,) = standstill(lines, acts=[act("move", 0, 9_000)])
    assert said == "a record of producer-0 in lane live was without an acknowledgement for 7.0 s, during: move"
    assert longest([(0, 3), (2, 9), (8, 10), (20, 21)]) == [(2, 9), (20, 21)]


def test_one_lane_does_not_hide_another() -> None:
    lines = [*sent_by("producer-0", 0, 9_000, lane="bulk"), *sent_by("producer-0", *range(0, 9_000, 500))]
    (said,) = standstill(lines, acts=[act("move", 0, 9_000)])
    assert "lane bulk" in said


def test_a_partition_with_work_and_nothing_settled_stands_still() -> None:
    values = [value_of("fine", number) for number in range(4)]
    lines = [line("acked", 1_000 * number, value) for number, value in enumerate(values)]
    lines.append(line("ended", 3_000, b""))
    done = [line("processed", at, value) for at, value in zip((500, 9_000, 9_100, 9_200), values, strict=True)]
    acts = [act("kill member", 0, 10_000)]
    (said,) = standstill([*lines, *done], acts=acts)
    assert said == f"{TOPIC}/0 on east had work and none of it settled for 8.0 s, during: kill member"
    assert acts[0].works_seconds == 8.0
    assert not standstill([*lines, *done], [Mark("east", "killed", 1_500, 7_000)], acts)
    assert standstill([*lines, *done], [Mark("east", "takes the stream", 1_500, 7_000, hit=False)], acts)
    assert not standstill([*lines, *done], acts=[act("kill all assigners", 0, 10_000)])
    assert standstill([*lines, *done[:1], line("started", 9_000, b"")], acts=acts), "to the end"
    idle = [line("acked", 0, values[0]), line("processed", 100, values[0]), line("acked", 9_000, values[1])]
    said = "".join(standstill([*idle, line("processed", 9_100, values[1])], acts=acts))
    assert "had work" not in said, "nothing to do is no standstill"


def test_outages_excuse_only_their_own_time() -> None:
    assert excused(0, 10, []) == 10
    assert excused(0, 10, [(2, 5), (20, 30)]) == 5
    assert excused(0, 10, [(6, 8)]) == 6
    assert excused(0, 10, [(-5, 3)]) == 7
    assert excused(0, 10, [(-5, 30)]) == 0


@pytest.mark.parametrize(("given", "found"), [(1.0, ["owned_after_healing_seconds: 9.0, promised 4"]), (0.5, [])])
def test_a_late_figure_is_named_where_the_machine_gave_its_time(given: float, found: list[str]) -> None:
    seconds = {"owned_after_healing_seconds": [9.0], "lag_zero_after_healing_seconds": [9.0]}
    assert late(PROMISED, seconds, dict.fromkeys(seconds, given)) == found


async def test_a_fault_in_which_a_run_got_stuck_is_on_its_timeline() -> None:
    field = Field.__new__(Field)
    field.marks = []
    with pytest.raises(StuckError), field.marked("east", "killed"):
        raise StuckError
    with field.marked("west", "killed"):
        pass
    assert [(mark.subject, mark.end_ms is None) for mark in field.marks] == [("east", True), ("west", False)]


# --- what a timeline shows


def moved(at_ms: int, activated: dict[int, float], *draining: int) -> EventRecord:
    """A route of lane live from now on."""
    event = TrafficMoved(
        activated=[ChannelWeight(lane="live", generation=each, weight=weight) for each, weight in activated.items()],
        draining=[ChannelRef(lane="live", generation=each) for each in draining],
    )
    return EventRecord(
        data=RegistryEvent(traffic_moved=event).SerializeToString(), metadata=EventMetadata(time_ms=at_ms)
    )


def planned(generation: int, cluster: str) -> EventRecord:
    """A channel."""
    event = ChannelPlanned(lane="live", generation=generation, cluster=cluster)
    return EventRecord(data=RegistryEvent(channel_planned=event).SerializeToString())


def test_routes_follow_from_moves() -> None:
    history = [
        planned(1, "east"),
        moved(100, {1: 1.0}),
        planned(2, "west"),
        moved(200, {1: 3.0, 2: 1.0}),
        moved(300, {2: 1.0}, 1),
    ]
    assert routes(history, 900) == [
        Route("live", 100, 200, {"east": 100.0}),
        Route("live", 200, 300, {"east": 75.0, "west": 25.0}),
        Route("live", 300, 900, {"west": 100.0}),
    ]


def line(kind: str, ms: int, value: bytes, cluster: str = "east") -> Line:
    return Line("p", kind, ms, value, cluster, TOPIC)


def value_of(fate: str, number: int = 0) -> bytes:
    """The so-manieth value of a fate."""
    return [value for value in (b"v%d" % each for each in range(5_000)) if fate_of(value) == fate][number]


def test_lag_is_what_is_acknowledged_and_not_settled() -> None:
    first, second, third = (value_of("fine", number) for number in range(3))
    lines = [
        line("acked", 0, first),
        line("acked", 10, second),
        line("acked", 20, third),
        line("acked", 30, value_of("poison")),
        line("processed", SLICE_MS, first),
        line("processed", SLICE_MS + 1, first),
        line("rejected", 2 * SLICE_MS, second),
        line("acked", 4 * SLICE_MS, value_of("poison", 1)),
    ]
    given_up = {third: 3 * SLICE_MS}
    assert lag(lines, lambda acked: given_up.get(acked.value)) == [3, 2, 1, 0, 0]
    assert lag(lines, lambda acked: None) == [3, 2, 1, 1, 1]


def test_throughput_is_counted_by_cluster_and_slice() -> None:
    lines = [line("acked", SLICE_MS * (each % 2), b"%d" % each, "west" if each > 2 else "east") for each in range(6)]
    assert throughput(lines, "acked", 0) == {"east": {0: 2, 1: 1}, "west": {0: 1, 1: 2}}


def test_a_page_shows_faults_routes_throughput_and_lag() -> None:
    lines = [line("acked", 10 * each, b"%d" % zlib.crc32(b"%d" % each), "west") for each in range(1_000)]
    report = Report(7, ["kill <cluster>"], kills=1, lines=lines)
    report.marks = [
        Mark("west", "returned <empty>", 3_000, 6_000),
        Mark("north", "takes the stream", 7_000, 8_000, hit=False),
        Mark("east", "frozen", 9_000),
    ]
    report.acts = [Act("deck", "freeze cluster", 9_000, hit=False, sends_seconds=2.5)]
    report.routes = [Route("live", 0, 10_000, {"west": 60.0, "north": 40.0})]
    report.lag = lag(lines, lambda _: None)
    page = page_of(report)
    for told in (
        "every invariant held",
        "west returned &lt;empty&gt;, healed after 3.0 s, at 3.0 s",
        "east frozen, healed after never, at 9.0 s",
        "<td>9.0 s<td>deck<td>freeze cluster<td>never<td>2.5 s of 10<td>under 1 s of 20",
        "live: west 60 %, north 40 %, from 0.0 s to 10.0 s",
        "≤ 100 a second",
        "not yet settled: ≤ ",
        "1000 records acknowledged",
        "<td>3.0 s<td>west<td>returned &lt;empty&gt;<td>3.0 s",
    ):
        assert told in page, told
    assert "<cluster>" not in page
