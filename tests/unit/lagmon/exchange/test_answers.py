"""Rows that a replica shares are those that another shows, older by the time between; what does not fit is refused."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.envelope import encode
from braid.kernel.limits.lagmon.division import LAG_SHARED_STALE_SECONDS
from braid.kernel.ports import TopicPartition
from braid.kernel.progress.fields import Cursor, EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from services.lagmon.columns.lags import LagColumns
from services.lagmon.division.exported import ExportedCluster
from services.lagmon.division.packing import DamagedColumns
from services.lagmon.division.views import ClusterView, SharedReading
from services.lagmon.domain import ClusterModel, lag_of
from services.lagmon.exchange.answers import Answer
from services.lagmon.exchange.messages import reading_message, rows_message
from services.lagmon.model.lag import LagRow, aged
from services.lagmon.model.mesh_view import ClusterPlace, MeshView
from services.lagmon.policy import Now
from tests.unit.lagmon.columns.rows import Key, Said, commits, model_of

PLACE = ClusterPlace("east:9092", "")
THEIRS, OURS = 500.0, 9_000.0  # clocks that never step, at one moment
WALL_MS = 1_767_225_600_000
ENVELOPES = [
    "",
    "of another tool",
    encode(EnvelopeFields(3, Ranges([(5, 7)]), oldest_ingested_at_ms=WALL_MS - 40_000, epoch=9)).metadata,
    encode(EnvelopeFields(3, head_ingested_at_ms=WALL_MS - 90_000, epoch=1 << 40)).metadata,
]
keys = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["t", "u"]), st.integers(0, 3))
values: st.SearchStrategy[Said] = st.none() | st.tuples(st.integers(0, 9), st.sampled_from(ENVELOPES))
turns = st.lists(st.dictionaries(keys, values, max_size=8), min_size=1, max_size=4)


class Sharing:
    """A replica that reads east, and another that is told of it."""

    def __init__(self, model: ClusterModel) -> None:
        self.model = model
        self.exported = ExportedCluster()
        self.view: ClusterView | None = None
        self.at = 0.0  # seconds since the beginning
        self.wall_ms = WALL_MS
        self.columns: LagColumns | None = None

    def now(self, clock: float) -> Now:
        """This moment by a clock that never steps."""
        return Now(clock + self.at, self.wall_ms + round(self.at * 1_000))

    def read(self) -> None:
        """The first replica reads the lag anew."""
        self.columns = lag_of(self.model, MeshView(), self.now(THEIRS))
        self.exported.take(self.columns, self.now(THEIRS))

    def answers(self, **changes: object) -> list[api.ReadLagColumnsResponse]:
        """The messages of the next answer."""
        version = self.view.reading.version if self.view is not None else 0
        exported, now_ms = self.exported, round(self.now(THEIRS).elapsed * 1_000)
        reading = SharedReading(
            "east", PLACE, exported.version, exported.size, exported.needs_all(version), True, now_ms, exported.seen
        )._replace(**changes)  # type: ignore[arg-type]  # the tests' own fields
        first = api.ReadLagColumnsResponse(life="1", now_ms=now_ms, readings=[reading_message(reading)])
        rows = [api.ReadLagColumnsResponse(rows=rows_message("east", part)) for part in exported.since(version)]
        return [first, *rows]

    def take(self, messages: Sequence[api.ReadLagColumnsResponse]) -> ClusterView:
        """The second replica takes an answer."""
        answer = Answer(api.ReadLagColumnsResponse.FromString(messages[0].SerializeToString()))
        for message in messages[1:]:
            answer.add(api.ReadLagColumnsResponse.FromString(message.SerializeToString()))
        known = {} if self.view is None else {"east": self.view}
        self.view = answer.views(known, self.now(OURS).elapsed)["east"]
        return self.view

    def shown(self) -> list[LagRow]:
        """The rows that the second replica shows."""
        assert self.view is not None
        return self.view.columns(self.now(OURS)).rows(slice(None))


def looks(model: ClusterModel, at: float) -> None:
    model.wanted()
    model.observe({TopicPartition(topic, number): 8 for topic in "tu" for number in range(4)}, at)


@given(turns, st.floats(0.0, 20.0))
def test_shown_rows_are_those_of_the_reader_grown_older(said: list[dict[Key, Said]], later: float) -> None:
    sharing = Sharing(model_of({}))
    for turn in said:
        sharing.at += 0.3
        sharing.model.take(0, commits(turn, WALL_MS), sharing.now(THEIRS).elapsed)
        looks(sharing.model, sharing.now(THEIRS).elapsed)
        sharing.at += 0.1
        sharing.read()
        sharing.take(sharing.answers())
    assert sharing.columns is not None
    own = sharing.columns.rows(slice(None))
    sharing.at += later
    for row, truth in zip(sharing.shown(), own, strict=True):
        wanted = aged(truth, later, sharing.now(OURS).wall_ms)
        assert row.lag_seconds == pytest.approx(wanted.lag_seconds, abs=0.004)
        assert row.live_lag_seconds == pytest.approx(wanted.live_lag_seconds or 0.0, abs=0.004)
        assert row.as_of_ms == pytest.approx(wanted.as_of_ms, abs=2)
        assert row.stale == (later + 0.1 > LAG_SHARED_STALE_SECONDS)
        assert (row.holder is None) == (wanted.holder is None)
        if row.holder is not None and wanted.holder is not None:
            assert (row.holder.epoch, row.holder.detached) == (wanted.holder.epoch, wanted.holder.detached)
        for name in ("key", "lag_records", "source", "foreign", "unattended", "committed_offset", "end_offset",
                     "commit_time_ms", "partitions", "split_partitions"):  # fmt: skip
            assert getattr(row, name) == getattr(wanted, name), name
    assert sharing.view is not None
    for groups in ({"a"}, {"b", "none"}):
        some = sharing.view.columns(sharing.now(OURS), groups).rows(slice(None))
        assert some == [row for row in sharing.shown() if row.key.group in groups]


def test_a_split_partition_keeps_the_age_of_its_live_cursor() -> None:
    live = Cursor(4, 5, oldest_ingested_at_ms=WALL_MS - 7_000, backlog_permille=200)
    fields = EnvelopeFields(0, until=4, cursors=(live,), oldest_ingested_at_ms=WALL_MS - 60_000)
    sharing = Sharing(model_of({("a", "t", 0): (0, encode(fields).metadata)}))
    looks(sharing.model, THEIRS)
    sharing.read()
    sharing.take(sharing.answers())
    assert sharing.columns is not None
    (own,) = sharing.columns.rows(slice(None))
    (row,) = sharing.shown()
    assert own.split_partitions == row.split_partitions == 1
    assert own.live_lag_seconds == pytest.approx(7.0)
    assert row.live_lag_seconds == pytest.approx(own.live_lag_seconds, abs=0.004)


def test_rows_that_stay_the_same_are_not_sent_again() -> None:
    groups: dict[Key, Said] = {(f"g{number}", "t", 0): (number, ENVELOPES[2]) for number in range(50)}
    sharing = Sharing(model_of(groups))
    looks(sharing.model, THEIRS)
    sharing.read()
    assert len(sharing.answers()) == 3  # readings, pairs, rows
    sharing.take(sharing.answers())
    for _ in range(5):
        sharing.at += 0.25
        looks(sharing.model, sharing.now(THEIRS).elapsed)
        sharing.read()
        assert len(sharing.answers()) == 1
        sharing.take(sharing.answers())
    sharing.model.take(0, commits({("g7", "t", 0): (8, "")}), sharing.now(THEIRS).elapsed)
    sharing.read()
    first, rows = sharing.answers()
    assert (first.readings[0].everything, rows.rows.count) == (False, 1)
    sharing.take([first, rows])
    assert [row.committed_offset for row in sharing.shown() if row.key.group == "g7"] == [8]


def test_an_end_that_the_reader_does_not_see_is_stale_for_all() -> None:
    sharing = Sharing(model_of({("a", "t", 0): (1, ""), ("a", "u", 0): (1, "")}))
    looks(sharing.model, THEIRS)
    sharing.at = 4.0  # stale for the reader, and not yet for others by themselves
    sharing.model.observe({TopicPartition("u", 0): 8}, sharing.now(THEIRS).elapsed)
    sharing.read()
    sharing.take(sharing.answers())
    assert [(row.key.topic, row.stale, row.as_of_ms - WALL_MS) for row in sharing.shown()] == [
        ("t", True, 0),
        ("u", False, 4_000),
    ]


def test_an_age_that_jumps_is_sent_again() -> None:
    """The wall clock was set, and nothing else changed."""
    sharing = Sharing(model_of({("a", "t", 0): (3, ENVELOPES[2])}))
    looks(sharing.model, THEIRS)
    sharing.read()
    sharing.take(sharing.answers())
    sharing.wall_ms += 5_000
    sharing.read()
    sharing.take(sharing.answers())
    assert [row.lag_seconds for row in sharing.shown()] == [pytest.approx(45.0, abs=0.004)]


def test_another_holder_of_a_lease_is_sent_though_it_did_nothing() -> None:
    sharing = Sharing(model_of({}))
    for epoch in (9, 10):
        text = encode(EnvelopeFields(3, oldest_ingested_at_ms=WALL_MS - 40_000, epoch=epoch)).metadata
        sharing.model.take(0, commits({("a", "t", 0): (3, text)}), THEIRS)
        looks(sharing.model, THEIRS)
        sharing.read()
        sharing.take(sharing.answers())
        assert [row.holder.epoch for row in sharing.shown() if row.holder is not None] == [epoch]


def test_one_that_missed_versions_gets_what_changed_since() -> None:
    groups: dict[Key, Said] = {(f"g{number}", "t", 0): (1, "") for number in range(9)}
    sharing = Sharing(model_of(groups))
    looks(sharing.model, THEIRS)
    sharing.read()
    sharing.take(sharing.answers())
    for number in (2, 5):
        sharing.model.take(0, commits({(f"g{number}", "t", 0): (6, "")}), THEIRS)
        sharing.read()
    sharing.take(sharing.answers())
    assert [row.committed_offset for row in sharing.shown()] == [1, 1, 6, 1, 1, 6, 1, 1, 1]


def test_many_rows_and_large_envelopes_come_in_bounded_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LAG_SHARE_ROWS", 7), ("LAG_SHARE_PAIRS", 5), ("LAG_SHARE_METADATA_BYTES", 300)):
        monkeypatch.setattr(f"services.lagmon.division.exported.{name}", value)
    groups: dict[Key, Said] = {(f"g{at:02}", "t", 0): (1, "b1:" + "x" * (at % 200)) for at in range(40)}
    sharing = Sharing(model_of(groups))
    looks(sharing.model, THEIRS)
    sharing.read()
    messages = sharing.answers()
    assert max(message.rows.count for message in messages) == 7
    assert max(len(message.rows.pairs) for message in messages) == 5
    assert max(len(message.rows.metadata) for message in messages) <= 300 + 200
    sharing.take(messages)
    assert [row.key.group for row in sharing.shown()] == [key[0] for key in groups]


def test_an_answer_counts_from_when_it_was_asked_for() -> None:
    """One that came ten seconds late is ten seconds old, though nobody can say where the time went."""
    sharing = Sharing(model_of({("a", "t", 0): (1, "")}))
    looks(sharing.model, THEIRS)
    sharing.read()
    messages = sharing.answers()
    view = sharing.take(messages)
    assert view.standing.good(OURS + 0.1)
    sharing.at = 10.0
    (row,) = sharing.shown()
    assert row.stale and not view.standing.good(OURS + 10.0)
    assert row.as_of_ms == pytest.approx(WALL_MS, abs=2)


Change = Callable[[list[api.ReadLagColumnsResponse]], object]


def _lose(messages: list[api.ReadLagColumnsResponse]) -> None:
    messages.pop()


def _repeat(messages: list[api.ReadLagColumnsResponse]) -> None:
    messages.append(messages[-1])


def _cut(messages: list[api.ReadLagColumnsResponse]) -> None:
    rows = messages[-1].rows
    rows.metadata = rows.metadata[:-1]


def _column(number: int, value: int) -> Change:
    def change(messages: list[api.ReadLagColumnsResponse]) -> None:
        column = messages[-1].rows.columns[number]
        column.base, column.width, column.data = value, 0, b""

    return change


def _fewer(messages: list[api.ReadLagColumnsResponse]) -> None:
    del messages[-1].rows.columns[-1]


def _elsewhere(messages: list[api.ReadLagColumnsResponse]) -> None:
    messages[-1].rows.cluster = "west"


def _unordered(messages: list[api.ReadLagColumnsResponse]) -> None:
    pairs = messages[1].rows.pairs
    pairs.append(pairs[0])


def _huge(messages: list[api.ReadLagColumnsResponse]) -> None:
    messages[0].readings[0].size = 1 << 40


def _negative(messages: list[api.ReadLagColumnsResponse]) -> None:
    messages[-1].rows.count = -1


@pytest.mark.parametrize(
    "change",
    [_lose, _repeat, _cut, _column(0, 7), _column(0, -1), _column(1, 99), _column(1, -1), _column(7, 6), _fewer,
     _elsewhere, _unordered, _huge, _negative],
)  # fmt: skip
def test_an_answer_that_does_not_fit_itself_changes_nothing(change: Change) -> None:
    groups: dict[Key, Said] = {(f"g{number}", "t", 0): (1, ENVELOPES[2]) for number in range(4)}
    sharing = Sharing(model_of(groups))
    looks(sharing.model, THEIRS)
    sharing.read()
    messages = sharing.answers()
    change(messages)
    with pytest.raises(DamagedColumns):
        sharing.take(messages)
    assert sharing.view is None


def test_more_rows_than_were_announced_are_not_kept() -> None:
    sharing = Sharing(model_of({("a", "t", 0): (1, "")}))
    looks(sharing.model, THEIRS)
    sharing.read()
    first, *rest = sharing.answers()
    answer = Answer(first)
    for message in rest:
        answer.add(message)
    with pytest.raises(DamagedColumns, match="more rows"):
        answer.add(rest[-1])


def test_changes_of_rows_that_are_not_known_are_refused() -> None:
    sharing = Sharing(model_of({("a", "t", 0): (1, "")}))
    looks(sharing.model, THEIRS)
    sharing.read()
    with pytest.raises(DamagedColumns):
        sharing.take(sharing.answers(everything=False))
    sharing.take(sharing.answers())
    with pytest.raises(DamagedColumns):
        sharing.take(sharing.answers(size=2))


def test_rows_are_replaced_and_tables_that_hold_them_are_not() -> None:
    sharing = Sharing(model_of({("a", "t", 0): (1, "")}))
    looks(sharing.model, THEIRS)
    sharing.read()
    before = sharing.take(sharing.answers()).columns(sharing.now(OURS))
    sharing.model.take(0, commits({("a", "t", 0): (5, "")}), THEIRS)
    sharing.read()
    after = sharing.take(sharing.answers()).columns(sharing.now(OURS))
    assert (before.lags.committed.tolist(), after.lags.committed.tolist()) == ([1], [5])
    assert np.shares_memory(before.lags.pair, after.lags.pair)
