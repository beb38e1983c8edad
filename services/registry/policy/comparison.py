"""Compares the topics of a cluster with the histories after a restore of the store. Pure.

Topics under the cluster's prefix are named after channels. A topic of a spare, or of a channel planned after the
backup, may hold records: then the channel is found. A topic that no history explains is an orphan: it is listed and
left alone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from braid.kernel.ids import ChannelId
from services.registry.model.channels import SPARE, Channel, ChannelRef, ChannelState
from services.registry.model.streams import Stream
from services.registry.model.topics import channel_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """The topics of a cluster, sorted by what the histories say of them.

    Attributes:
        spares: Topics of spares; found, if they were ever written to.
        later: Topics of channels planned after the backup.
        carrying: Topics of channels on the route; they must not be sealed.
        orphans: Topics that no history explains, sorted.
        gone: Provisioned spares whose topics no longer exist, by their streams' names.
    """

    spares: Mapping[str, tuple[str, Channel]] = field(default_factory=dict)
    later: Mapping[str, ChannelId] = field(default_factory=dict)
    carrying: Mapping[str, tuple[str, Channel]] = field(default_factory=dict)
    orphans: Sequence[str] = ()
    gone: Sequence[tuple[str, Channel]] = ()


def compare(
    streams: Mapping[str, Stream], cluster: str, prefix: str, topics: Sequence[str], strange: Collection[str] = ()
) -> Comparison:
    """Sorts the topics of a cluster. `strange` topics are never later channels of this mesh."""
    spares: dict[str, tuple[str, Channel]] = {}
    later: dict[str, ChannelId] = {}
    carrying: dict[str, tuple[str, Channel]] = {}
    orphans: list[str] = []
    for topic in sorted(topics):
        named = channel_of(prefix, topic)
        if named is None:
            continue
        stream = streams.get(named.stream)
        known = _known(stream, cluster, topic)
        if known is None and topic not in strange and _is_later(stream, cluster, named):
            later[topic] = named
        elif known is None:
            orphans.append(topic)
        elif known.state in SPARE:
            spares[topic] = named.stream, known
        elif known.state is ChannelState.ACTIVE:
            carrying[topic] = named.stream, known
    return Comparison(spares, later, carrying, orphans, _gone(streams, cluster, frozenset(topics)))


def _gone(streams: Mapping[str, Stream], cluster: str, topics: Collection[str]) -> Sequence[tuple[str, Channel]]:
    return [
        (name, channel)
        for name, stream in sorted(streams.items())
        for channel in stream.channels
        if channel.state is ChannelState.STANDBY and channel.cluster == cluster and channel.topic not in topics
    ]


def _known(stream: Stream | None, cluster: str, topic: str) -> Channel | None:
    """The channel that has the topic, whatever its name."""
    if stream is None:
        return None
    return next(
        (each for each in stream.channels if each.live and (each.cluster, each.topic) == (cluster, topic)), None
    )


def _is_later(stream: Stream | None, cluster: str, named: ChannelId) -> bool:
    """Whether a topic can belong to a channel that was planned after the backup.

    It can if the history has no channel of that generation, or gave the generation to a channel on another cluster
    since the restore. Numbers alone do not decide it: a later generation may have been found already, on a cluster that
    answered before this one. Generations below all that the history remembers were retired before the backup.
    """
    if stream is None or not stream.exists:
        return False
    ref = ChannelRef(named.lane, named.generation)
    known = [each for each in stream.channels if each.ref.lane == ref.lane]
    if any(each.ref == ref for each in known):
        return any(each.ref == ref and each.cluster != cluster for each in known)
    return ref.generation > min((each.ref.generation for each in known), default=0)
