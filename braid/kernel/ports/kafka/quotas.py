"""Quotas that Kafka's brokers enforce on clients (KIP-13), as they are read and changed (KIP-546)."""

from typing import Final, NamedTuple

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
QUOTA_KEYS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)


class QuotaEntity(NamedTuple):
    """The clients that share a quota at each broker: those of a user, or those of one client id of a user.

    Attributes:
        user: A user, as the broker knows it once it has logged in.
        client_id: Only clients of this id; empty for all that have no quota of their own id.
    """

    user: str
    client_id: str = ""

    def __str__(self) -> str:
        return f"user {self.user}" + (f" with client id {self.client_id}" if self.client_id else "")
