"""Lag over time that several replicas keep is put together to one answer, though some keep less or are silent."""

from collections.abc import Mapping

import structlog

from braid.api.lagmon.v1 import lag_history_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.errors import Unavailable
from braid.kernel.ports import Caller
from services.lagmon.kept.keeper import Keeper
from services.lagmon.policy import Now
from services.lagmon.servicer.history import HistoryReads, KeepsLag
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop
from tests.unit.lagmon.kept.test_keeper import Table

STEP_MS, LONG_MS = 10_000, 300_000
SINCE_MS = 1_767_225_000_000


class Other:
    """Another replica with one row, of the length that it chooses where none is asked for."""

    def __init__(self, chosen_ms: int, *, answers: bool = True) -> None:
        self.chosen_ms = chosen_ms
        self.answers = answers
        self.asked: list[api.ListLagHistoryRequest] = []

    async def history(self, request: api.ListLagHistoryRequest) -> api.ListLagHistoryResponse:
        """Answers, or does not."""
        self.asked.append(api.ListLagHistoryRequest.FromString(request.SerializeToString()))
        if not self.answers:
            raise Unavailable("gone")
        step_ms = request.step_ms or self.chosen_ms
        step = lag_history_pb2.LagStep(time_ms=SINCE_MS, known_seconds=step_ms / 1_000)
        history = lag_history_pb2.LagHistory(group="g", stream="s", lane="live", steps=[step])
        return api.ListLagHistoryResponse(histories=[history], step_ms=step_ms, kept_since_ms=SINCE_MS)


def answer(peers: Mapping[str, KeepsLag], **request: object) -> api.ListLagHistoryResponse:
    """The answer of a replica that keeps nothing itself."""

    async def run() -> api.ListLagHistoryResponse:
        process = VirtualProcess(running_loop(), "lagmon-0", 1)
        clock = process.host.clock

        async def table(age_seconds: float) -> Table:
            return Table((), Now(clock.elapsed(), clock.now_ms()), ())

        keeper = Keeper(process.host, table, structlog.stdlib.get_logger())
        process.tasks.spawn(keeper.run(), "kept lag")
        reads = HistoryReads(clock, keeper, "lagmon-0", lambda: peers)
        asked = api.ListLagHistoryRequest(since_ms=SINCE_MS, **request)  # type: ignore[arg-type]  # the test's fields
        return await reads.list_lag_history(asked, Caller("", "", "", ""))

    return run_virtual(run())


def test_rows_are_as_long_as_the_longest_of_any_replica() -> None:
    peers = {"lagmon-1": Other(LONG_MS), "lagmon-2": Other(STEP_MS)}
    found = answer(peers)
    assert found.step_ms == LONG_MS
    assert [step.known_seconds for step in found.histories[0].steps] == [LONG_MS / 1_000]
    assert [each.step_ms for each in peers["lagmon-1"].asked] == [0]
    assert [each.step_ms for each in peers["lagmon-2"].asked] == [0, LONG_MS]
    assert found.kept_since_ms == SINCE_MS


def test_replicas_are_asked_for_one_range_of_their_own_rows() -> None:
    peers = {"lagmon-1": Other(STEP_MS), "lagmon-2": Other(STEP_MS, answers=False)}
    found = answer(peers, step_ms=STEP_MS)
    (first,), (second,) = peers["lagmon-1"].asked, peers["lagmon-2"].asked
    assert first == second
    assert first.own_only and first.until_ms > SINCE_MS
    assert list(found.silent) == ["lagmon-2"]


def test_a_replica_asks_nobody_for_an_answer_of_its_own() -> None:
    peer = Other(STEP_MS)
    found = answer({"lagmon-1": peer}, own_only=True)
    assert (peer.asked, list(found.histories), found.kept_since_ms) == ([], [], 0)
