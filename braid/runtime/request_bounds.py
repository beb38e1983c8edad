"""Bounds on what one request may hold, checked in one place before any handler reads it.

Histories keep what a change says, sessions keep what a hello says, and errors repeat it. Every handler has rules of its
own for its fields; this bounds the texts and lists that no rule is about.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping
from contextlib import aclosing
from typing import Final, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from braid.kernel.errors import Invalid
from braid.kernel.limits.rpc import REQUEST_ITEMS_MAX, REQUEST_TEXT_CHARS_MAX
from braid.kernel.ports import Caller, DuplexHandler, DuplexServing, RpcService, StreamHandler, UnaryHandler

_TEXTS: Final = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)


def bounded(service: RpcService) -> RpcService:
    """The same service, where handlers see only requests within bounds; of a duplex method, the first message."""
    return service.wrapped(_unary, _stream, _duplex)


def check_request(request: object, path: str = "") -> None:
    """Checks all texts and lists of a message, those of the messages in it included.

    Raises:
        Invalid: a text is longer than `REQUEST_TEXT_CHARS_MAX`, or a list has more than `REQUEST_ITEMS_MAX` items;
            `field` names it.
    """
    for field, value in cast("Message", request).ListFields():
        where = f"{path}{field.name}"
        if field.is_repeated:
            _check_list(field, value, where)
        else:
            _check_value(field, value, where)


def check_hello(hello: object, path: str = "") -> None:
    """Checks the texts of a stream's first message, not those in lists of messages: a member may hold many leases.

    Raises:
        Invalid: see `check_request`.
    """
    for field, value in cast("Message", hello).ListFields():
        where = f"{path}{field.name}"
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            if not field.is_repeated:
                check_hello(value, f"{where}.")
        elif field.is_repeated:
            _check_list(field, value, where)
        else:
            _check_value(field, value, where)


def _check_list(field: FieldDescriptor, value: Collection[object], where: str) -> None:
    if len(value) > REQUEST_ITEMS_MAX:
        remedy = f"send at most {REQUEST_ITEMS_MAX}, in several requests if need be"
        raise Invalid(f"{len(value)} items are more than {REQUEST_ITEMS_MAX}", field=where, remedy=remedy)
    for inner, each in _items(field, value):
        _check_value(inner, each, where)


def _items(field: FieldDescriptor, value: object) -> Iterator[tuple[FieldDescriptor, object]]:
    """The items of a list, or the keys and values of a map, each with the field that says its type."""
    if field.message_type is None or not field.message_type.GetOptions().map_entry:
        return ((field, each) for each in cast("Collection[object]", value))
    entry, items = field.message_type.fields_by_name, cast("Mapping[object, object]", value)
    pairs = (((entry["key"], key), (entry["value"], items[key])) for key in items)
    return (each for pair in pairs for each in pair)


def _check_value(field: FieldDescriptor, value: object, where: str) -> None:
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        check_request(value, f"{where}.")
    elif field.type in _TEXTS and len(cast("str", value)) > REQUEST_TEXT_CHARS_MAX:
        message = f"{len(cast('str', value))} characters are more than {REQUEST_TEXT_CHARS_MAX}"
        raise Invalid(message, field=where, remedy=f"use at most {REQUEST_TEXT_CHARS_MAX}")


def _unary(_: str, handler: UnaryHandler) -> UnaryHandler:
    async def handle(request: object, caller: Caller) -> object:
        check_request(request)
        return await handler(request, caller)

    return handle


def _stream(_: str, handler: StreamHandler) -> StreamHandler:
    async def handle(request: object, caller: Caller) -> AsyncIterator[object]:
        check_request(request)
        responses = cast("AsyncGenerator[object, None]", handler(request, caller))
        async with aclosing(responses):
            async for response in responses:
                yield response

    return handle


def _duplex(_: str, handler: DuplexHandler) -> DuplexHandler:
    async def handle(stream: DuplexServing) -> None:
        await handler(_BoundedHello(stream))

    return handle


class _BoundedHello:
    """A stream whose first message is checked. Later ones come each second from thousands of members."""

    def __init__(self, stream: DuplexServing) -> None:
        self._stream = stream
        self._checked = False

    @property
    def caller(self) -> Caller:
        """See `DuplexServing.caller`."""
        return self._stream.caller

    @property
    def over(self) -> bool:
        """See `DuplexServing.over`."""
        return self._stream.over

    async def send(self, message: object) -> None:
        """See `DuplexServing.send`."""
        await self._stream.send(message)

    async def receive(self) -> object | None:
        """See `DuplexServing.receive`. Raises `Invalid` for a first message beyond bounds."""
        message = await self._stream.receive()
        if message is not None and not self._checked:
            check_hello(message)
            self._checked = True
        return message
