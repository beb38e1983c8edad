"""The registry's channels and clusters as this assigner knows them, at one registry revision. Pure values."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from braid.kernel.ids import ChannelId
from services.assigner.model.channels import (
    ChannelView,
    Presence,
    SeenChannel,
)


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    """How to reach a Kafka cluster."""

    name: str
    bootstrap: str
    zone: str
    security_profile: str


@dataclass(frozen=True, slots=True)
class RegistryView:
    """Channels by name and clusters by name, true at `revision`."""

    revision: int
    channels: Mapping[str, SeenChannel] = field(default_factory=dict)
    clusters: Mapping[str, ClusterPlace] = field(default_factory=dict)
    _streams: dict[str, list[tuple[str, SeenChannel]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def followed_by(self, later: "RegistryView") -> "RegistryView":
        """Returns this view with a later message applied; what the message leaves out has not changed."""
        return RegistryView(later.revision, {**self.channels, **later.channels}, {**self.clusters, **later.clusters})

    def differing(self, before: "RegistryView | None") -> Collection[str] | None:
        """Returns the streams whose channels differ from an earlier view; None where all groups are concerned.

        That is so at the first view, and where a cluster is new, gone or elsewhere.
        """
        if before is None or before.clusters != self.clusters:
            return None
        names = self.channels.keys() | before.channels.keys()
        others = (name for name in names if self.channels.get(name) != before.channels.get(name))
        return {ChannelId.parse(name).stream for name in others}

    def of(self, streams: Collection[str]) -> ChannelView:
        """Returns the part of the view about some streams."""
        known = self._by_stream()
        found = sorted((each for stream in set(streams) for each in known.get(stream, ())), key=_name)
        return ChannelView(self.revision, tuple(seen for _, seen in found))

    def _by_stream(self) -> Mapping[str, Sequence[tuple[str, SeenChannel]]]:
        """Channels of each stream with their names, in their zones: made once for all groups that ask."""
        if not self._streams:
            for name, seen in self.channels.items():
                located = replace(seen, zone=self._zone(seen.cluster))
                self._streams.setdefault(ChannelId.parse(name).stream, []).append((name, located))
        return self._streams

    def _zone(self, cluster: str) -> str:
        place = self.clusters.get(cluster)
        return place.zone if place else ""

    def consumable(self, streams: Collection[str]) -> bool:
        """Whether any of the streams has a channel that carries traffic, or will."""
        there = (Presence.CONSUMABLE, Presence.AHEAD)
        return any(seen.presence in there for seen in self.of(streams).channels)

    def unknown(self, streams: Collection[str]) -> list[str]:
        """Returns the streams that have no channel here."""
        known = self._by_stream()
        return [stream for stream in streams if stream not in known]


def _name(found: tuple[str, SeenChannel]) -> str:
    return found[0]
