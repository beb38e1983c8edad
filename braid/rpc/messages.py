"""Converts protobuf messages to bytes and back, for every transport."""

from collections.abc import Callable
from typing import TypeVar, cast

from google.protobuf.message import DecodeError, Message

from braid.kernel.errors import Exhausted, Invalid
from braid.kernel.limits.rpc import MESSAGE_BYTES_MAX

T = TypeVar("T")


def serialize(message: object) -> bytes:
    """Encodes a message; equal messages give equal bytes within one release."""
    return cast("Message", message).SerializeToString(deterministic=True)


def parser(message_type: type[T], bytes_max: int = MESSAGE_BYTES_MAX) -> Callable[[bytes], T]:
    """A function that decodes a message. It raises `Invalid` for malformed bytes, `Exhausted` for too many."""
    from_string = cast("type[Message]", message_type).FromString

    def parse(data: bytes) -> T:
        if len(data) > bytes_max:
            raise Exhausted(f"a {message_type.__name__} of {len(data)} bytes exceeds {bytes_max}")
        try:
            return cast("T", from_string(data))
        except DecodeError as error:
            raise Invalid(f"the message is no {message_type.__name__}") from error

    return parse
