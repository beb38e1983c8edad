"""The registry's channels and clusters as this assigner knows them, at one registry revision. Pure values."""

from collections.abc import Collection, Mapping
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

    def followed_by(self, later: "RegistryView") -> "RegistryView":
        """Returns this view with a later message applied; what the message leaves out has not changed."""
        return RegistryView(later.revision, {**self.channels, **later.channels}, {**self.clusters, **later.clusters})

    def of(self, streams: Collection[str]) -> ChannelView:
        """Returns the part of the view about some streams."""
        found = [seen for name, seen in sorted(self.channels.items()) if ChannelId.parse(name).stream in streams]
        return ChannelView(self.revision, tuple(replace(seen, zone=self._zone(seen.cluster)) for seen in found))

    def _zone(self, cluster: str) -> str:
        place = self.clusters.get(cluster)
        return place.zone if place else ""

    def consumable(self, streams: Collection[str]) -> bool:
        """Whether any of the streams has a channel that carries traffic, or will."""
        there = (Presence.CONSUMABLE, Presence.AHEAD)
        return any(seen.presence in there for seen in self.of(streams).channels)

    def unknown(self, streams: Collection[str]) -> list[str]:
        """Returns the streams that have no channel here."""
        known = {ChannelId.parse(name).stream for name in self.channels}
        return [stream for stream in streams if stream not in known]
