"""Names of RPC methods, and typed entries for the tables of `RpcService`. No I/O."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar, cast

from braid.kernel.ports import Caller, DuplexHandler, DuplexServing, StreamHandler, UnaryHandler

R = TypeVar("R")


def service_path(service: str) -> str:
    """The gRPC service of a Braid service: `braid.api.registry.v1.RegistryService`."""
    return f"braid.api.{service}.v1.{service.capitalize()}Service"


def method_path(service: str, rpc: str) -> str:
    """A method's full name: `/braid.api.registry.v1.RegistryService/MoveStream`."""
    return f"/{service_path(service)}/{rpc}"


def unary(request_type: type[R], handler: Callable[[R, Caller], Awaitable[object]]) -> tuple[type, UnaryHandler]:
    """An entry of `RpcService.unary`; the handler receives requests of exactly this type."""
    return request_type, cast("UnaryHandler", handler)


def server_stream(
    request_type: type[R], handler: Callable[[R, Caller], AsyncIterator[object]]
) -> tuple[type, StreamHandler]:
    """An entry of `RpcService.server_stream`; the handler is an async generator function."""
    return request_type, cast("StreamHandler", handler)


def duplex(request_type: type, handler: Callable[[DuplexServing], Awaitable[None]]) -> tuple[type, DuplexHandler]:
    """An entry of `RpcService.duplex`; the stream's `receive()` returns messages of exactly this type."""
    return request_type, handler
