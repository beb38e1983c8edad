"""A real mesh under more than twenty kills keeps every promise; and every check of it can turn red."""

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import pytest

from braid.api.mesh.v1.event_pb2 import EventRecord
from braid.host.system import system_host
from braid.kafka.memory import MemoryKafka
from testbed.checkers import facts
from testbed.ground.clusters import OffsetCommit, decode_commit, takes_records
from testbed.ground.histories import Histories
from testbed.ground.journals import Journals
from testbed.ground.load import CLUSTERS as CHAOS_CLUSTERS
from tests.e2e.chaos.judging import handled_again, judge
from tests.e2e.chaos.liveness import gaps, stalls
from tests.e2e.chaos.plan import slice_of
from tests.e2e.chaos.run import Report

KILLS_MIN: Final = 20
STILL_MS: Final = 60_000
Facts = list[facts.Fact]
F = TypeVar("F")

pytestmark = [pytest.mark.real, pytest.mark.patient, pytest.mark.timeout(1_800)]


def test_every_promise_holds_under_kills(report: Report) -> None:
    print(report.to_json())
    assert report.violations == []
    assert report.kills >= KILLS_MIN
    assert report.faults == [name for name in slice_of(report.seed).faults if name not in report.not_played]


def test_the_run_had_something_to_check(report: Report) -> None:
    kinds = (facts.Acknowledged, facts.Processed, facts.Rejected, facts.DeadLettered, facts.Committed)
    histories = (facts.LeaseGranted, facts.SealRecorded, facts.EndsRecorded, facts.DrainRecorded, facts.Folded)
    losses = (facts.Destroyed, facts.LossRecorded, facts.GivenUp)
    topics = (facts.TopicCreated,)
    found = (*kinds, *histories, *losses, *topics)
    assert not [kind.__name__ for kind in found if not report.counts.get(kind.__name__)]
    assert report.figures["sealed_topics_tried"]
    assert report.figures["seal_recorded_to_tried_ms"]
    assert report.given_up, "records that nobody had consumed were lost by design"
    carried = {cluster for route in report.routes for cluster in route.shares}
    assert carried <= {*CHAOS_CLUSTERS}
    assert len(carried) > 1


def test_a_member_was_killed_between_its_commits(report: Report) -> None:
    kills = [mark for mark in report.marks if mark.what == "killed" and mark.subject.startswith("member")]
    assert any(handled_again(report.lines, mark.subject, mark.begin_ms) for mark in kills)


# --- each checker turns red when what happened is changed


@pytest.fixture(scope="module")
def sound(report: Report) -> Callable[[str], bool]:
    """Whether an invariant holds in the unchanged run; each is judged once for all mutants."""
    return cache(lambda invariant: not judge(report.found, only=invariant))


def _index(found: Facts, kind: type[F], fits: Callable[[F], bool] = lambda fact: True) -> int:
    return next(at for at, fact in enumerate(found) if isinstance(fact, kind) and fits(fact))


def _lost(found: Facts) -> Facts:
    """A mutant: a processed record was not, in a topic of which nothing was given up."""
    excused = {fact.topic for fact in found if isinstance(fact, facts.GivenUp)}
    done = (fact for fact in found if isinstance(fact, facts.Processed))
    value = next(fact.value for fact in done if facts.Topic(fact.place.cluster, fact.place.topic) not in excused)
    return [fact for fact in found if not (isinstance(fact, facts.Processed) and fact.value == value)]


def _false_receipt(found: Facts) -> Facts:
    at = _index(found, facts.Acknowledged)
    receipt = found[at]
    assert isinstance(receipt, facts.Acknowledged)
    found[at] = replace(receipt, place=receipt.place._replace(offset=receipt.place.offset + 100_000))
    return found


def _phantom(found: Facts) -> Facts:
    done = found[_index(found, facts.Processed)]
    assert isinstance(done, facts.Processed)
    return [*found, replace(done, value=b"from nowhere")]


def _commit_before_the_sink(found: Facts) -> Facts:
    at = _index(found, facts.Committed, lambda commit: commit.offset > 0)
    return [found[at], *found[:at], *found[at + 1 :]]


def _claim_too_much(found: Facts) -> Facts:
    last = max(at for at, fact in enumerate(found) if isinstance(fact, facts.Committed))
    commit = found[last]
    assert isinstance(commit, facts.Committed)
    return [*found, replace(commit, offset=commit.offset + 1_000, metadata="")]


def _unreadable(found: Facts) -> Facts:
    at = _index(found, facts.Committed)
    commit = found[at]
    assert isinstance(commit, facts.Committed)
    found[at] = replace(commit, metadata=commit.metadata[:-2])
    return found


def _epoch_again(found: Facts) -> Facts:
    return [*found, found[_index(found, facts.LeaseGranted)]]


def _former_leader(found: Facts) -> Facts:
    return [*found, found[_index(found, facts.EventDecided, lambda event: event.service == "registry")]]


def _event_missing(found: Facts) -> Facts:
    at = _index(found, facts.BatchAppended, lambda batch: batch.history.kind == "cluster" and batch.first > 1)
    return [*found[:at], *found[at + 1 :]]


def _other_state(found: Facts) -> Facts:
    at = _index(found, facts.Folded)
    fold = found[at]
    assert isinstance(fold, facts.Folded)
    found[at] = replace(fold, state=fold.state + b"x")
    return found


def _drained_first(found: Facts) -> Facts:
    at = _index(found, facts.DrainRecorded)
    return [found[at], *found[:at], *found[at + 1 :]]


def _unsealed(found: Facts) -> Facts:
    return [fact for fact in found if not isinstance(fact, facts.SealRecorded)]


def _dropped_on_reroute(found: Facts) -> Facts:
    """A mutant: a record acknowledged on another cluster than its predecessors never arrived there."""
    acked = [fact for fact in found if isinstance(fact, facts.Acknowledged)]
    later = next(fact for fact in acked if fact.place.cluster != acked[0].place.cluster)
    return [fact for fact in found if not (isinstance(fact, facts.Appended) and fact.place == later.place)]


def _loss_without_a_word(found: Facts) -> Facts:
    """A mutant that records no loss: a base after a truncation says nothing of the records that were below it."""
    return [fact for fact in found if not isinstance(fact, facts.LossRecorded | facts.GivenUp)]


def _loss_of_more(found: Facts) -> Facts:
    return [_one_more(fact) if isinstance(fact, facts.LossRecorded) else fact for fact in found]


def _one_more(loss: facts.LossRecorded) -> facts.LossRecorded:
    return replace(loss, ranges=tuple(each._replace(last=each.last + 100_000) for each in loss.ranges))


def _loss_passed_over(found: Facts) -> Facts:
    return [fact for fact in found if not isinstance(fact, facts.GivenUp | facts.LossRecorded)]


def _refused_not(found: Facts) -> Facts:
    """A mutant: a topic recorded as sealed accepts records."""
    at = _index(found, facts.SealRecorded)
    seal = found[at]
    assert isinstance(seal, facts.SealRecorded)
    found[at] = replace(seal, refuses=False)
    return found


def _risen(found: Facts) -> Facts:
    """A topic that was drained and deleted is there again: somebody's late record brought it back."""
    drained = next(fact.topic for fact in found if isinstance(fact, facts.DrainRecorded))
    return [*found, facts.TopicDeleted(drained), facts.TopicCreated(drained)]


def _deleted_first(found: Facts) -> Facts:
    drained = {fact.topic for fact in found if isinstance(fact, facts.DrainRecorded)}
    written = _index(found, facts.Appended, lambda fact: facts.Topic(fact.place.cluster, fact.place.topic) in drained)
    record = found[written]
    assert isinstance(record, facts.Appended)
    gone = facts.TopicDeleted(facts.Topic(record.place.cluster, record.place.topic))
    return [*found[: written + 1], gone, *found[written + 1 :]]


def _late_record(found: Facts) -> Facts:
    ends = next(fact for fact in found if isinstance(fact, facts.EndsRecorded) and fact.offsets[0])
    late = facts.Appended(facts.Place(*ends.topic, 0, ends.offsets[0]), b"late")
    return [*found, late]


@pytest.mark.parametrize(
    ("invariant", "mutate"),
    [
        ("I1 zero loss", _lost),
        ("I1 receipts", _false_receipt),
        ("I2 no phantom", _phantom),
        ("I3 truthful commits", _commit_before_the_sink),
        ("I3 truthful commits", _claim_too_much),
        ("I10 envelope", _unreadable),
        ("I6 epochs", _epoch_again),
        ("I6 leader epochs", _former_leader),
        ("I9 folds", _event_missing),
        ("I9 folds", _other_state),
        ("I11 drains", _drained_first),
        ("I11 drains", _unsealed),
        ("I11 drains", _late_record),
        ("I11 drains", _refused_not),
        ("I11 drains", _risen),
        ("I11 drains", _deleted_first),
        ("I1 receipts", _dropped_on_reroute),
        ("I1 zero loss", _loss_passed_over),
        ("I11 losses", _loss_without_a_word),
        ("I11 losses", _loss_of_more),
    ],
)
def test_a_changed_run_turns_its_checker_red(
    report: Report, sound: Callable[[str], bool], invariant: str, mutate: Callable[[Facts], Facts]
) -> None:
    assert sound(invariant)
    assert judge(mutate(list(report.found)), only=invariant)


@pytest.mark.parametrize(
    ("kinds", "said"),
    [(("acked",), "was without an acknowledgement"), (("processed", "rejected"), "had work and none of it settled")],
)
def test_work_that_stood_still_is_noticed(report: Report, kinds: Sequence[str], said: str) -> None:
    begin = report.acts[len(report.acts) // 4].begin_ms
    still = range(begin, begin + STILL_MS)
    lines = [line for line in report.lines if line.kind not in kinds or line.ms not in still]
    found = stalls([replace(act) for act in report.acts], gaps(lines, report.marks, lambda line: None))
    assert any(said in each for each in found)


def test_a_history_that_reads_differently_is_noticed() -> None:
    histories = Histories()
    for data in (b"first", b"first", b"second"):
        histories.keep(EventRecord(history="registry/stream/orders", sequence=1, data=data))
    assert histories.changed == ["registry/stream/orders@1 is not what it was"]


async def test_a_topic_that_is_not_sealed_is_noticed() -> None:
    kafka = MemoryKafka(system_host().clock)
    kafka.add_cluster("east")
    admin = kafka.cluster("east:9092", "").admin()
    await admin.create_topic("open", 2, 1, {})
    await admin.create_topic("sealed", 2, 1, {"max.message.bytes": "0"})
    assert await takes_records(admin, "open", 2) == [0, 1]
    assert await takes_records(admin, "sealed", 2) == []


# --- reading


@pytest.mark.parametrize("version", [0, 3, 4])
def test_commits_are_read_in_every_form(version: int) -> None:
    key = struct.pack(">hh1sh3si", 1, 1, b"g", 3, b"t.1", 7)
    text = struct.pack(">B3s", 4, b"abc") if version == 4 else struct.pack(">h3s", 3, b"abc")
    epoch = struct.pack(">i", 5) if version >= 3 else b""
    value = struct.pack(">hq", version, 42) + epoch + text + struct.pack(">q", 1_234)
    assert decode_commit(key, value) == OffsetCommit("g", "t.1", 7, 42, "abc", 1_234)
    assert decode_commit(struct.pack(">hh1s", 2, 1, b"g"), value) is None


def test_half_a_line_is_left_for_later(tmp_path: Path) -> None:
    path = tmp_path / "member-1.2.jsonl"
    path.write_text('{"kind": "processed", "ms": 5, "value": "v", "offset": 3}\n{"kind": "pro')
    journals = Journals(tmp_path)
    (line,) = journals.poll()
    assert (line.process, line.kind, line.value, line.offset) == ("member-1", "processed", b"v", 3)
    with path.open("a") as file:
        file.write('cessed", "ms": 6, "offset": 4}\n')
    assert [line.offset for line in journals.poll()] == [4]
    assert journals.counts["processed"] == 2
