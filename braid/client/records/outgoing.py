"""A record to be sent, as an application gives it, and its receipt."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from braid.kernel.ids import ChannelId

LANE_HEADER: Final = "braid-lane"
Headers = Sequence[tuple[str, bytes]]


class Outgoing(NamedTuple):
    """One record for `Producer.send_many`; fields as `Producer.send` takes them."""

    value: bytes | None
    key: bytes | None = None
    lane: str | None = None
    headers: Mapping[str, bytes] | None = None
    timestamp: int | None = None


class Copy(NamedTuple):
    """A record to be sent once more as it is, for `Producer.send_copies`; its `braid-id` is among its headers."""

    value: bytes | None
    key: bytes | None
    lane: str
    headers: Headers


class Receipt(NamedTuple):
    """The place of an acknowledged record."""

    cluster: str
    topic: str
    partition: int
    offset: int
    id: str
    channel: ChannelId
    timestamp_ms: int
