"""Remembers which producers were given which channels, for one term. No I/O.

Only a producer that was given a channel can have receipts of it. This term knows whom it gave the channels that it put
on the route itself. Those of earlier terms were given out before: there a producer counts that said, with its first
hello, that it works by a route already. A producer that was about to take such a route says so with its next hello: its
revision is older than the first that this term gave it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from braid.kernel.limits.registry.resources import GIVEN_CHANNELS_MAX, GIVEN_ROUTES_MAX
from services.registry.model.channels import Channel, ChannelRef


@dataclass(slots=True)
class _Given:
    """The channels that one producer was given.

    Attributes:
        by_others: It said with a hello that it works by a route, which an earlier term gave it.
        late: It said so later than a producer does that is still waited for.
        more: It was given more channels than are remembered.
        first: The first revision that this term gave it; 0 for none.
    """

    by_others: bool
    late: bool
    more: bool = False
    first: int = 0
    channels: dict[ChannelRef, None] = field(default_factory=dict)


@dataclass
class GivenRoutes:
    """The channels of all routes that were sent to producers in one term.

    Attributes:
        epoch: The term's epoch.
    """

    epoch: int
    _given: dict[tuple[str, str, str], _Given] = field(default_factory=dict)  # by stream, producer and principal
    _forgotten: bool = False  # of some producer it is not known any more what it was given

    def hello(self, stream: str, producer: str, principal: str, *, revision: int, late: bool) -> None:
        """Takes a hello of a producer.

        Args:
            stream: Its stream.
            producer: Its id.
            principal: Who it is, by its certificate or token; '' for nobody.
            revision: The route revision that it says to work by; 0 for none.
            late: Whether this term has lasted so long that nobody waits for producers of earlier ones any more.
        """
        key = (stream, producer, principal)
        if (given := self._given.get(key)) is not None:
            if 0 < revision < given.first and not given.by_others:
                given.by_others, given.late = True, late
            return
        self._given[key] = _Given(revision > 0, late)
        if len(self._given) > GIVEN_ROUTES_MAX:
            del self._given[next(iter(self._given))]
            self._forgotten = True

    def give(self, stream: str, producer: str, principal: str, revision: int, channels: Iterable[ChannelRef]) -> None:
        """Notes the revision and the channels of a route, before it is sent to a producer."""
        given = self._given.get((stream, producer, principal))
        if given is None:  # forgotten
            return
        given.first = given.first or revision
        given.channels |= dict.fromkeys(channels)
        if len(given.channels) > GIVEN_CHANNELS_MAX:
            given.more = True
            given.channels = dict.fromkeys(list(given.channels)[-GIVEN_CHANNELS_MAX:])

    def may_have_written(self, stream: str, producer: str, principal: str, channel: Channel) -> bool:
        """Whether a producer was given a channel, or may have been by an earlier term."""
        known = self._known(stream, producer, principal)
        return self._was_given(known, channel) or self._is_claimed(known, channel)

    def is_waited_for(self, stream: str, producer: str, principal: str, channel: Channel) -> bool:
        """Whether a drain of the channel waits for a producer's acknowledgement.

        A producer of an earlier term is waited for if it came soon after this term began. Otherwise newcomers that
        claim an old route could hold every drain, one after the other.
        """
        known = self._known(stream, producer, principal)
        return self._was_given(known, channel) or self._is_claimed([each for each in known if not each.late], channel)

    def _known(self, stream: str, producer: str, principal: str) -> Sequence[_Given]:
        """All that is known of a producer, also from before it had a certificate."""
        found = [self._given.get((stream, producer, each)) for each in {principal, ""}]
        return [each for each in found if each is not None]

    def _was_given(self, known: Sequence[_Given], channel: Channel) -> bool:
        return self._forgotten or any(each.more or channel.ref in each.channels for each in known)

    def _is_claimed(self, known: Sequence[_Given], channel: Channel) -> bool:
        return channel.activated_epoch != self.epoch and any(each.by_others for each in known)
