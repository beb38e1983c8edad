"""Parts of the chaos run that need no processes: decks, disks, what its timeline shows."""

import zlib
from pathlib import Path
from typing import Final

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from braid.api.mesh.v1.event_pb2 import EventMetadata, EventRecord
from braid.api.registry.v1.events_pb2 import (
    ChannelPlanned,
    ChannelRef,
    ChannelWeight,
    RegistryEvent,
    TrafficMoved,
)
from tests.e2e.chaos.catalogue import FAULTS
from tests.e2e.chaos.disks import Disk, batches_in, records_in
from tests.e2e.chaos.field import Mark
from tests.e2e.chaos.journals import Line
from tests.e2e.chaos.load import fate_of
from tests.e2e.chaos.plan import CLUSTERS, FURTHER, SMALL, deck
from tests.e2e.chaos.run import Report
from tests.e2e.chaos.series import SLICE_MS, Route, lag, routes, throughput
from tests.e2e.chaos.timeline import page_of
from tests.support.checkers import facts

TOPIC: Final = "braid.orders.live.1"
LOG: Final = facts.LogId("east", TOPIC, 2)


# --- decks


@pytest.mark.parametrize("seed", range(5))
def test_a_deck_holds_every_fault_and_a_smoke_its_own(seed: int) -> None:
    assert sorted(deck(seed)) == sorted([*SMALL, *CLUSTERS, *FURTHER])
    assert sorted(deck(seed, whole=False)) == sorted([*SMALL, *CLUSTERS])
    assert {*deck(seed)} == FAULTS.keys()
    assert deck(seed) == deck(seed)


# --- disks


def batch(first: int, *values: bytes) -> bytes:
    """As a broker writes it."""
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
    report.marks = [Mark("west", "returned <empty>", 3_000, 6_000)]
    report.routes = [Route("live", 0, 10_000, {"west": 60.0, "north": 40.0})]
    report.lag = lag(lines, lambda _: None)
    page = page_of(report)
    for told in (
        "every invariant held",
        "west returned &lt;empty&gt;, 3000 ms, at 3.0 s",
        "live: west 60 %, north 40 %, from 0.0 s to 10.0 s",
        "≤ 100 a second",
        "not yet settled: ≤ ",
        "1000 records acknowledged",
        "<td>3.0 s<td>west<td>returned &lt;empty&gt;<td>3.0 s",
    ):
        assert told in page, told
    assert "<cluster>" not in page
