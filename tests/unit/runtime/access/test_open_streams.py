"""Open streams: those of one question take one decision, and each is ended for itself."""

from collections.abc import Callable

from braid.kernel.errors import AccessDenied, BraidError
from braid.kernel.limits.access.rights import ACCESS_RECHECK_STREAMS
from braid.kernel.ports import Caller
from braid.runtime.access.open_streams import OpenStream, OpenStreams
from tests.support.virtual_time import run_virtual, running_loop, virtual_host


class Ground:
    """Open streams whose right is a name in a set; their question is the name."""

    def __init__(self) -> None:
        self.allowed = {"logs", "pay"}
        self.decided: list[str] = []
        self.ended: list[tuple[int, BraidError]] = []
        clock = virtual_host(running_loop(), 1).clock
        self.streams = OpenStreams(clock, lambda each: each.method, self._decide)

    def open(self, name: str, number: int) -> Callable[[], None]:
        caller = Caller(principal=f"dns:{name}", tenant="", request_id="", peer=f"10.0.0.{number}")
        return self.streams.add(OpenStream(name, None, caller, lambda error: self.ended.append((number, error))))

    async def look(self) -> list[str]:
        self.decided.clear()
        await self.streams.look_at_all()
        return self.decided

    def _decide(self, stream: OpenStream) -> BraidError | None:
        self.decided.append(stream.method)
        return None if stream.method in self.allowed else AccessDenied(f"{stream.caller.peer} may not")


def test_streams_of_one_question_take_one_decision() -> None:
    async def scenario() -> None:
        ground = Ground()
        for number in range(1_000):
            ground.open("logs", number)
        ground.open("pay", 1_000)
        assert await ground.look() == ["logs", "pay"]
        assert len(ground.streams) == 1_001

    run_virtual(scenario())


def test_each_stream_of_a_lost_right_ends_with_its_own_error() -> None:
    async def scenario() -> None:
        ground = Ground()
        for number in range(3):
            ground.open("logs", number)
        ground.open("pay", 3)
        ground.allowed = {"pay"}
        await ground.look()
        assert [(number, error.message) for number, error in ground.ended] == [
            (number, f"10.0.0.{number} may not") for number in range(3)
        ]
        assert len(ground.streams) == 1
        assert await ground.look() == ["pay"], "what ended is not asked about again"

    run_virtual(scenario())


def test_a_stream_that_ended_by_itself_is_forgotten() -> None:
    async def scenario() -> None:
        ground = Ground()
        forget, other = ground.open("logs", 0), ground.open("logs", 1)
        forget()
        forget()
        assert len(ground.streams) == 1
        other()
        assert not len(ground.streams)
        ground.open("logs", 2)
        forget()  # late: its question is asked by another stream now
        assert await ground.look() == ["logs"]

    run_virtual(scenario())


def test_only_streams_of_chosen_callers_are_looked_at() -> None:
    async def scenario() -> None:
        ground = Ground()
        ground.open("logs", 0)
        ground.open("pay", 1)
        ground.allowed = set()
        ground.streams.look_at("dns:pay")
        assert [number for number, _ in ground.ended] == [1]

    run_virtual(scenario())


def test_more_questions_than_one_go_are_all_asked() -> None:
    async def scenario() -> None:
        ground = Ground()
        names = [f"s{number}" for number in range(ACCESS_RECHECK_STREAMS + 1)]
        ground.allowed = set(names)
        for number, name in enumerate(names):
            ground.open(name, number)
        assert await ground.look() == names

    run_virtual(scenario())


def test_a_stream_that_another_ones_end_has_ended_is_passed_over() -> None:
    async def scenario() -> None:
        ground = Ground()
        forget: list[Callable[[], None]] = []
        caller = Caller(principal="dns:logs", tenant="", request_id="", peer="10.0.0.9")
        ground.streams.add(OpenStream("logs", None, caller, lambda error: forget[0]()))
        forget.append(ground.open("logs", 1))
        ground.open("logs", 2)
        ground.allowed = set()
        await ground.look()
        assert [number for number, _ in ground.ended] == [2]
        assert not len(ground.streams)

    run_virtual(scenario())
