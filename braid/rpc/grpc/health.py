"""Health checks (`grpc.health.v1`) for callers that prove nothing: who watches and does not read holds up nobody.

The servicer of grpc's own package writes to each watcher under the lock that changes of the status wait for.
"""

import asyncio
from typing import TypeAlias

import grpc
from grpc_health.v1 import health
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from braid.kernel.limits.rpc import HEALTH_WATCHES_MAX

Context: TypeAlias = "grpc.aio.ServicerContext[HealthCheckRequest, HealthCheckResponse]"


class HealthChecks:
    """The health of a server, which has a name for itself beside the empty one."""

    def __init__(self, service: str) -> None:
        self._services = ("", service)
        self._status = HealthCheckResponse.NOT_SERVING
        self._changed = asyncio.Event()
        self._watches = 0

    def set_serving(self, serving: bool) -> None:
        """Sets the answer; watchers are told."""
        self._status = HealthCheckResponse.SERVING if serving else HealthCheckResponse.NOT_SERVING
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def handler(self) -> grpc.GenericRpcHandler:
        """Returns the handler of both methods; several servers may share it."""
        types = HealthCheckRequest.FromString, HealthCheckResponse.SerializeToString
        check = grpc.unary_unary_rpc_method_handler(self.check, *types)
        watch = grpc.unary_stream_rpc_method_handler(self.watch, *types)
        return grpc.method_handlers_generic_handler(health.SERVICE_NAME, {"Check": check, "Watch": watch})

    async def check(self, request: HealthCheckRequest, context: Context) -> HealthCheckResponse:
        """Answers at once. Aborts with NOT_FOUND for a service that is not here."""
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such service here")
        return HealthCheckResponse(status=self._status)

    async def watch(self, request: HealthCheckRequest, context: Context) -> None:
        """Tells the status, and each change. Watches are bounded, so that there is room for those that only ask."""
        if self._watches >= HEALTH_WATCHES_MAX:
            text = f"{HEALTH_WATCHES_MAX} watches of health are open here: end one, or ask by Check"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._watches += 1
        try:
            await self._tell_changes(request, context)
        finally:
            self._watches -= 1

    async def _tell_changes(self, request: HealthCheckRequest, context: Context) -> None:
        told = None
        while True:
            changed = self._changed  # before the status is read: a change meanwhile is seen
            known = request.service in self._services
            status = self._status if known else HealthCheckResponse.SERVICE_UNKNOWN
            if status != told:
                await context.write(HealthCheckResponse(status=status))
                told = status
            await changed.wait()
