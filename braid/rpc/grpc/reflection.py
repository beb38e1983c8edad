"""gRPC reflection as a method of a replica's service, so that it passes the same checks as every other stream.

The reflection package answers the questions; it is an extra of services, and nothing that only calls imports this.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Final, cast

from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest

from braid.kernel.ports import DuplexHandler, DuplexServing

REFLECTION_PATH: Final = f"/{reflection.SERVICE_NAME}/ServerReflectionInfo"


def reflection_method(service: str) -> Mapping[str, tuple[type, DuplexHandler]]:
    """An entry for `RpcService.duplex` that lists a service, named as in paths, and describes its messages."""
    names = (service, health.SERVICE_NAME, reflection.SERVICE_NAME)
    answers = reflection.aio.ReflectionServicer(names).ServerReflectionInfo

    async def handle(stream: DuplexServing) -> None:
        async with aclosing(answers(_questions(stream), None)) as responses:
            async for response in responses:
                await stream.send(response)

    return {REFLECTION_PATH: (ServerReflectionRequest, handle)}


async def _questions(stream: DuplexServing) -> AsyncIterator[ServerReflectionRequest]:
    while (question := await stream.receive()) is not None:
        yield cast("ServerReflectionRequest", question)
