"""A replica shares all clusters that it reads, in versions that never mean two things."""

from collections.abc import Mapping

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.ports import Caller, TopicPartition
from services.lagmon.division.standing import Standing
from services.lagmon.domain import lag_of
from services.lagmon.exchange.requests import OwnReading, OwnReadings, SharedLag
from services.lagmon.model.mesh_view import ClusterPlace, MeshView
from services.lagmon.policy import Now
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop
from tests.unit.lagmon.columns.rows import Said, model_of

EAST, ELSEWHERE = ClusterPlace("east:9092", ""), ClusterPlace("other:9092", "")
CALLER = Caller("lagmon-1", "default", "r", "peer")


class Reader:
    """A replica whose readings the test sets."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.own = OwnReadings(Now(0.0, 1), {})
        host = VirtualProcess(running_loop(), "lagmon-0", 1).host
        self.shared = SharedLag(host, self._readings, self.asked.append)

    async def _readings(self) -> OwnReadings:
        return self.own

    def reads(self, at: float, offsets: Mapping[str, int], place: ClusterPlace = EAST) -> None:
        """From now on it reads east with these groups; without any, not at all."""
        now = Now(at, 1_000_000 + round(at * 1_000))
        said: dict[tuple[str, str, int], Said] = {(group, "t", 0): (offset, "") for group, offset in offsets.items()}
        model = model_of(said, [(at, {TopicPartition("t", 0): 9})])
        reading = OwnReading(place, lag_of(model, MeshView(), now), Standing(True, at, at))
        self.own = OwnReadings(now, {"east": reading} if offsets else {})

    async def answer(self, life: str = "", version: int = 0) -> list[api.ReadLagColumnsResponse]:
        """Asks as one that has a version of a life."""
        request = api.ReadLagColumnsRequest(instance="lagmon-1", life=life, versions={"east": version})
        return [message async for message in self.shared.read(request, CALLER)]


def test_a_cluster_that_is_read_again_is_shared_anew() -> None:
    """The cluster was at its first version before, and is again: the rows that an asker has are others."""

    async def scene() -> None:
        reader = Reader()
        reader.reads(1.0, {"a": 1, "b": 1})
        first, *_ = await reader.answer()
        version = first.readings[0].version
        reader.reads(2.0, {})
        gone, *_ = await reader.answer(first.life, version)
        assert not gone.readings
        reader.reads(3.0, {"a": 5, "b": 5})
        again, *rows = await reader.answer(first.life, version)
        assert again.readings[0].everything and again.readings[0].version > version
        assert sum(message.rows.count for message in rows) == 2

    run_virtual(scene())


def test_a_cluster_of_the_same_name_elsewhere_is_shared_anew() -> None:
    async def scene() -> None:
        reader = Reader()
        reader.reads(1.0, {"a": 1})
        first, *_ = await reader.answer()
        reader.reads(2.0, {"a": 1}, ELSEWHERE)
        again, *_ = await reader.answer(first.life, first.readings[0].version)
        assert (again.readings[0].everything, again.readings[0].bootstrap) == (True, "other:9092")

    run_virtual(scene())


def test_versions_of_another_life_mean_nothing() -> None:
    async def scene() -> None:
        reader = Reader()
        reader.reads(1.0, {"a": 1})
        first, *_ = await reader.answer()
        again, *_ = await reader.answer("another life", first.readings[0].version)
        assert again.readings[0].everything
        (same,) = await reader.answer(first.life, first.readings[0].version)
        assert not same.readings[0].everything

    run_virtual(scene())


def test_rows_that_come_or_go_are_all_shared_again() -> None:
    async def scene() -> None:
        reader = Reader()
        reader.reads(1.0, {"a": 1, "b": 1})
        first, *_ = await reader.answer()
        for at, groups in enumerate([{"a": 1, "c": 1}, {"a": 1}, {"a": 1, "b": 1}], 2):
            reader.reads(float(at), groups)
            again, *_ = await reader.answer(first.life, first.readings[0].version)
            assert (again.readings[0].everything, again.readings[0].size) == (True, len(groups))
            first = again

    run_virtual(scene())


def test_who_asks_is_heard_of() -> None:
    async def scene() -> None:
        reader = Reader()
        await reader.answer()
        assert reader.asked == ["lagmon-1"]

    run_virtual(scene())
