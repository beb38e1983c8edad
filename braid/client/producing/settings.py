"""Settings that an application may choose for a producer, checked when the producer is made."""

from dataclasses import dataclass
from typing import Final

from braid.client.producing.lane_rules import LaneRule
from braid.kernel.errors import Invalid
from braid.kernel.limits.client import DELIVERY_TIMEOUT_SECONDS, PRODUCER_BUFFER_BYTES

COMPRESSIONS: Final = (None, "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Settings of one producer, as `Mesh.producer` takes them.

    Attributes:
        max_buffer_bytes: Bound on the memory that unacknowledged records hold, as estimated: their bytes twice (one
            copy is in a batch), and about a kilobyte of objects for each; then `send` waits.
        delivery_timeout_seconds: A record not acknowledged by then raises `DeliveryUnknown`.
        compression: None, `gzip`, `snappy`, `lz4` or `zstd`.
        linger_ms: How long a batch may wait to fill.
        lane_rule: Says the lane of a record that names none, for example `Late(60, "bulk")`.
        lanes: The only lanes it writes to; all of them when empty. The registry waits for it, and for how far its
            receipts go, only where channels of these lanes are concerned.
    """

    max_buffer_bytes: int = PRODUCER_BUFFER_BYTES
    delivery_timeout_seconds: float = DELIVERY_TIMEOUT_SECONDS
    compression: str | None = None
    linger_ms: int = 5
    lane_rule: LaneRule | None = None
    lanes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_buffer_bytes < 1:
            raise Invalid("must be positive", field="max_buffer_bytes")
        if self.delivery_timeout_seconds <= 0:
            raise Invalid("must be positive", field="delivery_timeout_seconds")
        if self.compression not in COMPRESSIONS:
            raise Invalid(f"{self.compression!r} is unknown", field="compression", remedy=f"use one of {COMPRESSIONS}")
        if self.linger_ms < 0:
            raise Invalid("must not be negative", field="linger_ms")
