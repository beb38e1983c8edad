"""One peer as it is asked: late answers are old, and one that does not share or answers nonsense is no member."""

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

from braid.api.lagmon.v1 import lag_columns_pb2 as wire
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.kernel.errors import BraidError, Unavailable, Unsupported
from braid.kernel.limits.lagmon.division import (
    LAG_MEMBER_GONE_SECONDS,
    LAG_MEMBER_SECONDS,
    LAG_PEER_AGAIN_SECONDS,
    LAG_PEER_MESSAGE_SECONDS,
)
from braid.kernel.ports import CallOptions, RpcChannel
from braid.runtime.telemetry import logger
from services.lagmon.division.views import ClusterView
from services.lagmon.exchange.peer import Peer
from tests.support.virtual_time import VirtualProcess, run_virtual, running_loop

T = TypeVar("T")


class Script:
    """The other end of a peer: answers as the test says."""

    def __init__(self) -> None:
        self.life = "1"
        self.takes_seconds = 0.0
        self.fails: BraidError | None = None
        self.clusters: Mapping[str, bool] = {"east": True}  # and whether it was read to its end
        self.rows_of = ""  # a cluster of which rows come, too
        self.asked: list[float] = []
        self.dropped: list[ClusterView] = []
        self.process = VirtualProcess(running_loop(), "lagmon-0", 1)
        self.clock = self.process.host.clock
        channel = cast("RpcChannel", self)
        log = logger("lagmon", "lagmon-0")
        self.peer = Peer(self.process.host, channel, "lagmon-1", "lagmon-0", lambda: None, self.dropped.append, log)

    async def server_stream(
        self, method: str, request: api.ReadLagColumnsRequest, response_type: type[T], options: CallOptions
    ) -> AsyncIterator[api.ReadLagColumnsResponse]:
        """See `RpcChannel`."""
        self.asked.append(self.clock.elapsed())
        now_ms = round(self.clock.elapsed() * 1_000)
        await self.clock.sleep(self.takes_seconds)
        if self.fails is not None:
            raise self.fails
        readings = [
            wire.LagReading(
                cluster=name, version=1, everything=True, caught_up=whole, read_ms=now_ms, newest_seen_ms=now_ms
            )
            for name, whole in self.clusters.items()
        ]
        yield api.ReadLagColumnsResponse(life=self.life, now_ms=now_ms, readings=readings)
        if self.rows_of:
            yield api.ReadLagColumnsResponse(rows=wire.LagRows(cluster=self.rows_of))

    async def pass_time(self, seconds: float) -> None:
        """Lets the peer be asked."""
        await self.clock.sleep(seconds)


def is_member(script: Script) -> bool:
    """Whether clusters are divided with the peer now."""
    return script.peer.is_member


def play(scene: Callable[[Script], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        script = Script()
        script.process.tasks.spawn(script.peer.run(), "peer")
        await scene(script)

    run_virtual(run())


def test_an_answer_that_took_long_is_as_old_as_the_question() -> None:
    async def scene(script: Script) -> None:
        script.takes_seconds = 1.5
        await script.pass_time(1.6)
        assert script.peer.views["east"].standing.known_at == script.asked[0]

    play(scene)


def test_one_that_is_silent_is_no_member_after_a_while() -> None:
    async def scene(script: Script) -> None:
        await script.pass_time(1.0)
        script.takes_seconds = 9.0
        await script.pass_time(LAG_MEMBER_SECONDS - 0.5)
        assert is_member(script)
        await script.pass_time(2 * LAG_PEER_MESSAGE_SECONDS)
        assert not is_member(script)
        assert not script.peer.is_gone
        assert "east" in script.peer.views

    play(scene)


def test_one_that_is_not_listed_and_silent_is_gone_sooner() -> None:
    async def scene(script: Script) -> None:
        await script.pass_time(1.0)
        script.peer.listed = False
        await script.pass_time(30.0)
        assert script.peer.is_member and not script.peer.is_gone
        script.fails = Unavailable("refused")
        await script.pass_time(LAG_MEMBER_GONE_SECONDS + 0.5)
        assert script.peer.is_gone

    play(scene)


def test_who_slept_asks_again_before_others_count_as_silent() -> None:
    async def scene(script: Script) -> None:
        await script.pass_time(1.0)
        script.process.pause()
        await script.pass_time(60.0)
        assert script.peer.is_member
        script.process.resume()
        for _ in range(20):
            await script.pass_time(0.05)
            assert script.peer.is_member

    play(scene)


def test_one_that_does_not_share_is_asked_again_later() -> None:
    async def scene(script: Script) -> None:
        script.fails = Unsupported("no such method")
        await script.pass_time(1.0)
        assert not is_member(script)
        script.fails = None
        await script.pass_time(LAG_PEER_AGAIN_SECONDS - 0.9)
        assert script.asked == [0.0, LAG_PEER_AGAIN_SECONDS]
        assert "east" in script.peer.views
        assert is_member(script)

    play(scene)


def test_rows_of_one_that_answers_nonsense_are_forgotten() -> None:
    async def scene(script: Script) -> None:
        await script.pass_time(1.0)
        script.rows_of = "west"
        await script.pass_time(1.0)
        assert not script.peer.is_member and not script.peer.views

    play(scene)


def test_the_last_view_of_a_given_up_cluster_is_handed_on() -> None:
    async def scene(script: Script) -> None:
        await script.pass_time(1.0)
        script.clusters = {}
        await script.pass_time(1.0)
        assert [view.reading.cluster for view in script.dropped] == ["east"] and not script.peer.views

    play(scene)


def test_a_restarted_peer_does_not_replace_what_it_knew() -> None:
    async def scene(script: Script) -> None:
        await script.pass_time(1.0)
        script.life, script.clusters = "2", {"east": False}
        await script.pass_time(1.0)
        assert [view.reading.caught_up for view in script.dropped] == [True]
        script.life, script.clusters = "3", {"east": True}
        await script.pass_time(1.0)
        assert len(script.dropped) == 1

    play(scene)
