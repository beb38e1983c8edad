"""The handler of `ResetProgress`: looks up on clusters what a reset would do, and asks for it."""

from collections.abc import Mapping
from typing import NamedTuple

from braid.api.assigner.v1 import assigner_service_pb2 as api
from braid.kernel.access.approvals import GuardedVerb
from braid.kernel.errors import Invalid, NotFound, Refused, Unavailable
from braid.kernel.ids import ChannelId, LeaseId
from braid.kernel.ports import Caller, Kafka, OffsetAt, TopicPartition
from braid.runtime.replica import Replica
from services.assigner.codec.specs import decode_start
from services.assigner.domain.decide import registered_spec
from services.assigner.model import group_channels, progress_resets
from services.assigner.model.channels import ChannelObserved
from services.assigner.model.group import Channel, Group, StartKind, StartPosition, lease_name
from services.assigner.model.progress_resets import UNTOUCHED, ResetIntended, ResetProgress
from services.assigner.model.registry_view import ClusterPlace
from services.assigner.peers import RegistryFollower
from services.assigner.reconciler.group_loop import GROUPS
from services.assigner.servicer.approvals import require_approval


class _Looked(NamedTuple):
    """One channel of a reset: the request, and the bounds of its logs."""

    channel: Channel
    intent: ResetIntended
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    @property
    def holds_records(self) -> bool:
        """Whether records lie at or after the wanted offsets."""
        return any(
            wanted != UNTOUCHED and wanted < end for wanted, end in zip(self.intent.offsets, self.ends, strict=True)
        )


class Resets:
    """The handler of `ResetProgress` on the leader."""

    def __init__(self, replica: Replica, kafka: Kafka, registry: RegistryFollower) -> None:
        self._replica = replica
        self._kafka = kafka
        self._registry = registry

    async def reset_progress(self, request: api.ResetProgressRequest, caller: Caller) -> api.ResetProgressResponse:
        """Replaces progress, or returns what would be replaced.

        Raises:
            NotFound: no such group, or it consumes nothing of that stream.
            Refused: members hold leases there.
            Invalid: no position is named, or more than one kind of.
            ClusterUnavailable: a cluster does not answer; nothing has changed.
        """
        self._replica.require_leader()
        state = self._replica.aggregates.state(GROUPS, request.group)
        _check_known(state)
        asked = {str(LeaseId.parse(each.lease, "offsets.lease")): each.offset for each in request.offsets}
        if bool(asked) == request.HasField("to"):
            raise Invalid("name a position, or offsets of single leases", field="to")
        drained = self._drained(state, request)
        consumed = _consumed(state)
        found = _asked_for(request, {**{name: _begun(event) for name, event in drained.items()}, **consumed}, asked)
        looked = [await self._look(state, channel, request, asked) for channel in found]
        looked = [each for each in looked if str(each.channel.id) in consumed or each.holds_records]
        begun = tuple(drained[each.intent.channel] for each in looked if each.intent.channel not in consumed)
        refusal = ""
        try:
            progress_resets.check(state, [each.intent.channel for each in looked], {each.channel for each in begun})
        except (Refused, Unavailable) as error:
            if not request.dry_run:
                raise
            refusal = error.message
        if not request.dry_run:
            streams = [request.stream] if request.stream else registered_spec(state).streams
            verb = GuardedVerb.RESET_PROGRESS
            await require_approval(self._replica, "ResetProgress", request, verb, state, streams, caller)
            await self._replica.aggregates.execute(
                GROUPS,
                request.group,
                ResetProgress(tuple(each.intent for each in looked), begun),
                actor=caller.principal or caller.peer,
                tenant=caller.tenant,
                request_id=caller.request_id,
                cause=request.reason or "asked for",
            )
        return api.ResetProgressResponse(
            partitions=[part for each in looked for part in _partitions(each)], refusal=refusal
        )

    async def _look(
        self, state: Group, channel: Channel, request: api.ResetProgressRequest, asked: Mapping[str, int]
    ) -> _Looked:
        cluster = self._kafka.cluster(*self._place(channel))
        admin, offsets = cluster.admin(), cluster.offsets()
        partitions = [TopicPartition(channel.topic, number) for number in range(channel.partitions)]
        try:
            starts = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.EARLIEST))
            ends = await admin.offsets_at(dict.fromkeys(partitions, OffsetAt.LATEST))
            found = await offsets.committed(state.name, partitions)
            if request.HasField("to"):
                wanted = await admin.offsets_at(dict.fromkeys(partitions, _position(request)))
            else:
                named = {at: asked.get(lease_name(channel.id, at.partition), UNTOUCHED) for at in partitions}
                wanted = {
                    at: offset if offset == UNTOUCHED else min(max(offset, starts[at]), ends[at])
                    for at, offset in named.items()
                }
                if channel.reading:  # its other partitions are begun nowhere else than where progress stands
                    wanted |= {at: ends[at] for at in partitions if wanted[at] == UNTOUCHED and found[at].offset < 0}
        finally:
            await admin.close()
            await offsets.close()
        intent = ResetIntended(
            str(channel.id),
            tuple(found[at].offset for at in partitions),
            tuple(wanted[at] for at in partitions),
        )
        return _Looked(channel, intent, tuple(starts[at] for at in partitions), tuple(ends[at] for at in partitions))

    def _drained(self, state: Group, request: api.ResetProgressRequest) -> Mapping[str, ChannelObserved]:
        """Returns drained channels that are kept and finished for the group, which may begin in them anew."""
        view, spec = self._registry.view, state.spec
        if view is None or spec is None:
            return {}
        start = decode_start(request.to) if request.HasField("to") else StartPosition()
        told = view.of(spec.streams)
        return {
            seen.name: group_channels.begun(seen, told.revision, appeared_later=True)
            for seen in told.channels
            if group_channels.begins_at(start, seen) and spec.wants(ChannelId.parse(seen.name))
            if not ((known := state.channels.get(seen.name)) and (known.closed or known.ending))
        }

    def _place(self, channel: Channel) -> tuple[str, str]:
        view = self._registry.view
        place: ClusterPlace | None = view.clusters.get(channel.cluster) if view else None
        if place is None:
            raise Unavailable(f"the registry does not tell where {channel.cluster} is", remedy="try again")
        return place.bootstrap, place.security_profile


def _check_known(state: Group) -> None:
    try:
        registered_spec(state)
    except NotFound as error:
        raise NotFound(error.message, field="group", remedy="list them: braid get groups") from error


def _consumed(state: Group) -> Mapping[str, Channel]:
    """Returns the channels in which something is left for the group."""
    return {name: each for name, each in state.channels.items() if progress_resets.resettable(state, each)}


def _begun(event: ChannelObserved) -> Channel:
    """Returns a drained channel as it will be once the group begins in it anew."""
    id = ChannelId.parse(event.channel)
    return Channel(id, event.cluster, event.topic, event.partitions, True, event.registry_revision, True, reading=True)


def _asked_for(
    request: api.ResetProgressRequest, known: Mapping[str, Channel], asked: Mapping[str, int]
) -> list[Channel]:
    """Returns the channels that a request is about."""
    for lease in asked:
        channel, partition = lease.rsplit("/", 1)
        if channel not in known or int(partition) >= known[channel].partitions:
            raise NotFound(f"group {request.group!r} does not consume {lease}", field="offsets")
    found = [
        each
        for name, each in sorted(known.items())
        if request.stream in ("", each.id.stream)
        and request.lane in ("", each.id.lane)
        and (not asked or any(lease.rsplit("/", 1)[0] == name for lease in asked))
    ]
    if not found:
        part = "/".join(filter(None, (request.stream, request.lane)))
        raise NotFound(f"group {request.group!r} consumes nothing of {part or 'any stream'}", field="stream")
    return found


def _position(request: api.ResetProgressRequest) -> OffsetAt | int:
    start = decode_start(request.to)
    if start.kind is StartKind.TIME:
        return start.time_ms
    return OffsetAt.LATEST if start.kind is StartKind.LATEST else OffsetAt.EARLIEST


def _partitions(looked: _Looked) -> list[api.ResetPartition]:
    intent = looked.intent
    return [
        api.ResetPartition(
            lease=lease_name(looked.channel.id, number),
            cluster=looked.channel.cluster,
            before=intent.before[number],
            after=offset,
            log_start=looked.starts[number],
            log_end=looked.ends[number],
        )
        for number, offset in enumerate(intent.offsets)
        if offset != UNTOUCHED
    ]
