"""Recorded handlers: streams that end because Braid is wrong, and callers whose key is not known yet."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from braid.api.registry.v1.route_pb2 import WatchChannelsRequest, WatchRoutesRequest
from braid.host.system import system_host
from braid.kernel.access.requests import Lookup
from braid.kernel.audit.calls import CallRecorded, Outcome
from braid.kernel.audit.forms import Reads
from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.ports import Caller, DuplexServing, RpcService
from braid.rpc.methods import duplex, method_path, server_stream
from braid.runtime.audit.recorded import recorded
from braid.runtime.audit.recorder import Recorder
from braid.runtime.telemetry import make_metrics
from tests.unit.runtime.tokens.test_tokens import Rig

ANN = Caller("spiffe://braid.local/user/ann", "default", "", "ipv4:10.0.0.7:1", authenticated=True)
WATCH = method_path("registry", "WatchChannels")
ROUTES = method_path("registry", "WatchRoutes")


class Said:
    """A stream that says one thing."""

    caller = ANN
    over = False

    async def send(self, message: object) -> None:
        """Takes a message."""

    async def receive(self) -> object | None:
        """The one thing."""
        return WatchRoutesRequest()


class Recording:
    """A service with two streams that fail as they are told to, and its records."""

    def __init__(self, failure: BaseException) -> None:
        self._failure: BaseException | None = failure
        self._recorder = Recorder(
            "registry", system_host().clock, Lookup(), Reads.ALL, make_metrics("registry", "registry-0")
        )
        streams = {WATCH: server_stream(WatchChannelsRequest, self._watch)}
        duplexes = {ROUTES: duplex(WatchRoutesRequest, self._routes)}
        self.service = recorded(RpcService("registry", {}, streams, duplexes), self._recorder)

    async def _watch(self, request: object, caller: Caller) -> AsyncIterator[object]:
        if self._failure is not None:
            raise self._failure
        yield request

    async def _routes(self, stream: DuplexServing) -> None:
        await stream.receive()
        await stream.send(WatchRoutesRequest())
        if self._failure is not None:
            raise self._failure

    def found(self) -> list[tuple[Outcome, str]]:
        """How recorded calls ended, and why."""
        taken = self._recorder.take(last=True)
        records = [*taken.changes, *taken.counts]
        return [(each.call.outcome, each.call.reason) for each in records if isinstance(each, CallRecorded)]


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (ZeroDivisionError(), (Outcome.FAILED, "INTERNAL")),
        (asyncio.CancelledError(), (Outcome.OPENED, "")),
        (Unavailable("gone"), None),
    ],
)
async def test_a_stream_is_recorded_with_an_error_nobody_foresaw(
    failure: BaseException, outcome: tuple[Outcome, str] | None
) -> None:
    watching = Recording(failure)
    with pytest.raises(type(failure)):
        async for _ in watching.service.server_stream[WATCH][1](WatchChannelsRequest(), ANN):
            pass
    assert watching.found() == ([outcome] if outcome else [])
    producing = Recording(failure)
    with pytest.raises(type(failure)):
        await producing.service.duplex[ROUTES][1](Said())
    failed = [outcome] if outcome and outcome[0] is Outcome.FAILED else []
    assert producing.found() == [(Outcome.OPENED, ""), *failed]


async def test_a_forged_key_id_is_recorded_as_a_refusal() -> None:
    rig, recording = Rig(), Recording(Unavailable("unused"))
    await rig.of(rig.issuer.token())
    rig.clock.seconds += 1  # soon after, the keys are not read again
    with pytest.raises(Unavailable) as unknown:
        await rig.of(rig.issuer.token(headers={"kid": "forged"}))
    recording.service.refused(ROUTES, Caller("", "default", "", "ipv4:10.0.0.7:1"), unknown.value)
    assert recording.found() == [(Outcome.REFUSED, "unknown_key")]


async def test_keys_that_cannot_be_read_make_nobody_a_forger() -> None:
    rig, recording = Rig(), Recording(Unavailable("unused"))
    rig.away = "away"
    with pytest.raises(BraidError) as away:
        await rig.of(rig.issuer.token())
    recording.service.refused(ROUTES, Caller("", "default", "", "ipv4:10.0.0.7:1"), away.value)
    assert recording.found() == [(Outcome.FAILED, "UNAVAILABLE")]
