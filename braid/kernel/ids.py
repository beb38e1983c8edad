"""Names, identities and their forms: streams, channels, leases, topics, epochs, ULIDs. Pure parsing and printing."""

import re
from typing import NamedTuple, Self

from braid.kernel.errors import Invalid
from braid.kernel.limits.names import NUMBER_DIGITS_MAX

_NAME = re.compile(r"[a-z0-9-]{1,63}")
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_COUNTER_BITS = 40

# Value of the record that proves a topic sealed. A partition leader that was not sealed yet takes it: it is nobody's
# record, so consumers pass over a record without key and headers that has this value.
SEAL_CANARY = b"braid: a seal is tested here"

DEFAULT_LANE = "live"  # takes the records that name no lane, where a stream has it
DLQ_LANE = "dlq"  # takes dead letters; every stream has it

# Begins the names under which Kafka keeps progress while a membership ends. No name of Braid's has a colon.
ASIDE_GROUP = "braid-aside:"


def check_name(value: str, field: str) -> str:
    """Returns `value` when it has the form of a Braid name.

    Raises:
        Invalid: `value` is not 1 to 63 of lower-case letters, digits and hyphens.
    """
    if not _NAME.fullmatch(value):
        raise Invalid(
            f"{value!r} is not a name", field=field, remedy="use 1 to 63 lower-case letters, digits and hyphens"
        )
    return value


def read_number(text: str) -> int | None:
    """Returns the number that ASCII digits stand for; None for any other text, and for more than 18 digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= NUMBER_DIGITS_MAX else None


class ChannelId(NamedTuple):
    """One generation of one lane of a stream: `<stream>/<lane>/<generation>`."""

    stream: str
    lane: str
    generation: int

    def __str__(self) -> str:
        return f"{self.stream}/{self.lane}/{self.generation}"

    @classmethod
    def parse(cls, text: str, field: str = "") -> Self:
        """Reads `<stream>/<lane>/<generation>`. Raises `Invalid`, which names the field, for any other form."""
        parts = text.split("/")
        generation = read_number(parts[2]) if len(parts) == 3 else None
        if generation is None:
            raise Invalid(f"{text!r} is not a channel", field=field, remedy="write <stream>/<lane>/<generation>")
        return cls(check_name(parts[0], field or "stream"), check_name(parts[1], field or "lane"), generation)

    def topic(self, prefix: str) -> str:
        """The name of the channel's one Kafka topic under a cluster's topic prefix."""
        return f"{prefix}{self.stream}.{self.lane}.{self.generation}"


class LeaseId(NamedTuple):
    """One partition of one channel, which a member can own: `<stream>/<lane>/<generation>/<partition>`."""

    channel: ChannelId
    partition: int

    def __str__(self) -> str:
        return f"{self.channel}/{self.partition}"

    @classmethod
    def parse(cls, text: str, field: str = "") -> Self:
        """Reads `<stream>/<lane>/<generation>/<partition>`. Raises `Invalid`, which names the field, for others."""
        channel, _, number = text.rpartition("/")
        partition = read_number(number)
        if partition is None:
            remedy = "write <stream>/<lane>/<generation>/<partition>"
            raise Invalid(f"{text!r} is not a lease", field=field, remedy=remedy)
        return cls(ChannelId.parse(channel, field), partition)


def make_epoch(incarnation: int, counter: int) -> int:
    """An epoch is (store incarnation, counter) in one comparable integer below 2**63."""
    if not (0 < incarnation < 1 << 23 and 0 <= counter < 1 << _COUNTER_BITS):
        raise Invalid(f"epoch ({incarnation}, {counter}) is out of range")
    return incarnation << _COUNTER_BITS | counter


def split_epoch(epoch: int) -> tuple[int, int]:
    """Returns the (store incarnation, counter) of an epoch."""
    return epoch >> _COUNTER_BITS, epoch & ((1 << _COUNTER_BITS) - 1)


def epoch_text(epoch: int) -> str:
    """An epoch as people read it: `1.42` is the 42nd of the store's first incarnation."""
    incarnation, counter = split_epoch(epoch)
    return f"{incarnation}.{counter}"


def make_ulid(now_ms: int, entropy: bytes) -> str:
    """A ULID (ulid/spec): 48 bits of milliseconds, 80 bits of entropy, 26 characters of Crockford base 32."""
    number = (now_ms & ((1 << 48) - 1)) << 80 | int.from_bytes(entropy[:10], "big")
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
