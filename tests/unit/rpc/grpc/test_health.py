"""Health as it is told: to those that ask, to those that watch, and past those that watch and do not read."""

import asyncio

from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from braid.rpc.grpc.health import HealthChecks

SERVING, NOT_SERVING = HealthCheckResponse.SERVING, HealthCheckResponse.NOT_SERVING


class Context:
    """A caller that reads what it is told, or never does."""

    def __init__(self, *, reads: bool) -> None:
        self.told: list[int] = []
        self._reads = reads

    async def write(self, message: HealthCheckResponse) -> None:
        """Takes an answer, or lets its sender wait without end."""
        if not self._reads:
            await asyncio.Event().wait()
        self.told.append(message.status)


async def test_a_watcher_that_does_not_read_holds_up_no_change() -> None:
    checks, reader = HealthChecks("registry"), Context(reads=True)
    request = HealthCheckRequest(service="registry")
    watching = [
        asyncio.ensure_future(checks.watch(request, each))  # type: ignore[arg-type]  # what it uses of a context
        for each in (Context(reads=False), reader)
    ]
    await asyncio.sleep(0)
    for serving, status in ((True, SERVING), (False, NOT_SERVING)):
        checks.set_serving(serving)
        await asyncio.sleep(0)
        assert (await checks.check(request, reader)).status == status  # type: ignore[arg-type]
        await asyncio.sleep(0)
    assert reader.told == [NOT_SERVING, SERVING, NOT_SERVING]
    for each in watching:
        each.cancel()
    await asyncio.wait(watching)
