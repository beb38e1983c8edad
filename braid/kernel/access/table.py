"""The table of access: for each method the action it takes, and which fields of its request name the resources.

A method without a row is refused to everybody, and `tests/unit/kernel/access` fails: a new method needs a row here.
Lists are not filtered. A list without a name in its request is about everything, and needs a right on everything.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from braid.kernel.access.roles import ANYTHING, MESH, Action, Resource, ResourceKind

STREAM: Final = ResourceKind.STREAM
GROUP: Final = ResourceKind.GROUP
CLUSTER: Final = ResourceKind.CLUSTER
REPLAY: Final = ResourceKind.REPLAY


class Named(NamedTuple):
    """A field of a request that names a resource.

    Attributes:
        field: Its path, dotted; a repeated one names several.
        kind: Of the resource.
        part: The name is what stands before the first `/`: of a channel, a lease, a dead letter.
        history: The field holds `<kind>/<id>`, which says the kind as well; with `part`, the id ends before the next
            `/`: of an alert.
        action: What the request does to this one, where that is not the row's action.
        required: A request that leaves it out is about all of the kind, whatever else it names.
        entry: The field is a mapping, and the resource is named by its entry with this key.
    """

    field: str
    kind: ResourceKind = ResourceKind.MESH
    part: bool = False
    history: bool = False
    action: Action | None = None
    required: bool = False
    entry: str = ""


class Row(NamedTuple):
    """The right that a method needs. Every resource that its request names must be allowed.

    Attributes:
        action: The least that the caller must be allowed to do.
        names: Where the request names resources.
        otherwise: What it is about when it names none. By default all of the kind that `names` begins with, else the
            mesh.
        hello: Of a duplex method whose first message names the resources: the field that only the first may have.
        later: Where later messages of a duplex method name resources, which must be among those of the first.
        lanes: Names lanes that the request is about. Those who handle a stream's records write its dead letters: about
            the `dlq` lane alone the request takes `consume`.
        streams_of_group: The group's registered streams are resources too, besides those that the request names.
        own: A field with a principal. About itself everybody may ask who is authenticated.
        own_if_empty: An empty such field means the caller.
        writes: Whether it changes something although only services call it.
    """

    action: Action
    names: tuple[Named, ...] = ()
    otherwise: Resource | None = None
    hello: str = ""
    later: tuple[Named, ...] = ()
    lanes: str = ""
    streams_of_group: bool = False
    own: str = ""
    own_if_empty: bool = False
    writes: bool = False

    @property
    def mutates(self) -> bool:
        """Whether it changes something, or opens a stream that may."""
        return self.writes or self.action not in (Action.CONNECT, Action.VIEW, Action.INSPECT, Action.SERVE)

    @property
    def reads(self) -> bool:
        """Whether it changes nothing, and is no service's alone: such methods may be parts of one call."""
        actions = {self.action, *(each.action for each in self.names if each.action is not None)}
        return actions <= {Action.VIEW, Action.INSPECT} and not self.writes

    @property
    def unnamed(self) -> Resource:
        """The resource of a request that names none."""
        if self.otherwise is not None:
            return self.otherwise
        first = self.names[0].kind if self.names else ResourceKind.MESH
        return MESH if first in (ResourceKind.MESH, REPLAY) else Resource(first, "*")


_NAME_STREAM: Final = Named("name", STREAM)
_NAME_GROUP: Final = Named("name", GROUP)
_NAME_CLUSTER: Final = Named("name", CLUSTER)
_OF_STREAM: Final = Named("stream", STREAM)
_OF_GROUP: Final = Named("group", GROUP)
_OF_CLUSTER: Final = Named("cluster", CLUSTER)
_CHANNEL: Final = Named("channel", STREAM, part=True)
_HISTORY: Final = Named("history", history=True)
_SCALED_GROUP: Final = Named("scalerMetadata", GROUP, entry="group")

# What every service has.
_COMMON: Final[Mapping[str, Row]] = {
    "ListEndpoints": Row(Action.CONNECT),
    # Each of its parts needs the right that the row of the part's method says.
    "ReadMany": Row(Action.CONNECT),
    "ListEvents": Row(Action.VIEW, (_HISTORY,)),
    "WatchEvents": Row(Action.VIEW, (_HISTORY,)),
    "GetArchive": Row(Action.VIEW),
    "VerifyArchive": Row(Action.VIEW, (_HISTORY,)),
    "ListArchive": Row(Action.SERVE),
    "ReadArchive": Row(Action.SERVE),
    # gRPC reflection: which methods there are, and their messages.
    "ServerReflectionInfo": Row(Action.VIEW),
}

_REGISTRY: Final[Mapping[str, Row]] = {
    # Whoever uses any stream reads where its cluster is; a declaration holds no credentials.
    "GetCluster": Row(Action.VIEW, otherwise=ANYTHING),
    "ListClusters": Row(Action.VIEW, otherwise=Resource(CLUSTER, "*")),
    "CreateCluster": Row(Action.CHANGE, (_NAME_CLUSTER,)),
    "UpdateCluster": Row(Action.CHANGE, (_NAME_CLUSTER,)),
    "DeleteCluster": Row(Action.CHANGE, (_NAME_CLUSTER,)),
    "CordonCluster": Row(Action.OPERATE, (_NAME_CLUSTER,)),
    # It moves every stream on the cluster, and may discard drained topics.
    "DecommissionCluster": Row(Action.CHANGE, (_NAME_CLUSTER,)),
    # It names streams of the whole mesh, and what they carry.
    "PreviewClusters": Row(Action.VIEW, otherwise=Resource(CLUSTER, "*")),
    "GetStream": Row(Action.VIEW, (_NAME_STREAM,)),
    "ListStreams": Row(Action.VIEW, otherwise=Resource(STREAM, "*")),
    "CreateStream": Row(Action.CHANGE, (_NAME_STREAM,)),
    "UpdateStream": Row(Action.CHANGE, (_NAME_STREAM,)),
    "DeleteStream": Row(Action.CHANGE, (_NAME_STREAM,)),
    "EndDrill": Row(Action.CHANGE, (_OF_STREAM,)),
    "MoveStream": Row(Action.OPERATE, (_OF_STREAM,)),
    "CloseChannel": Row(Action.CHANGE, (_CHANNEL,)),
    "ReleaseChannel": Row(Action.OPERATE, (_CHANNEL,)),
    "ListChannels": Row(Action.VIEW, (_OF_STREAM, _OF_CLUSTER)),
    "WatchChannels": Row(Action.SERVE),
    "WatchRoutes": Row(
        Action.PRODUCE,
        (Named("hello.stream", STREAM),),
        hello="hello",
        lanes="hello.lanes",
        later=(
            Named("send_errors.channel", STREAM, part=True),
            Named("channel_left.channel", STREAM, part=True),
            Named("log_resumed.channel", STREAM, part=True),
        ),
    ),
    # One stream a process: it names clusters, and stands for all groups of the process.
    "WatchClusters": Row(Action.CONSUME, otherwise=ANYTHING),
    "DescribePast": Row(Action.VIEW, (_OF_STREAM, _OF_CLUSTER)),
    "ListPastStreams": Row(Action.VIEW, otherwise=Resource(STREAM, "*")),
    "ListPastClusters": Row(Action.VIEW, otherwise=Resource(CLUSTER, "*")),
    "GrantAccess": Row(Action.GRANT),
    "RevokeAccess": Row(Action.GRANT),
    "ListGrants": Row(Action.VIEW, own="principal"),
    "CheckAccess": Row(Action.VIEW, own="principal", own_if_empty=True),
    "RevokeIdentity": Row(Action.GRANT),
    "LiftRevocation": Row(Action.GRANT),
    "ListRevocations": Row(Action.VIEW),
    "SetTenant": Row(Action.CHANGE),
    "DeleteTenant": Row(Action.CHANGE),
    "ListTenants": Row(Action.VIEW),
    "SetApprovalPolicy": Row(Action.GRANT),
    "DeleteApprovalPolicy": Row(Action.GRANT),
    "ListApprovalPolicies": Row(Action.VIEW),
    "ListApprovals": Row(Action.VIEW),
    # It names a request that waits: the handler asks for the rights that this takes, and refuses whoever asked for it.
    "DecideApproval": Row(Action.OPERATE, otherwise=ANYTHING),
    "ClaimApproval": Row(Action.SERVE, writes=True),
}

_ASSIGNER: Final[Mapping[str, Row]] = {
    "GetGroup": Row(Action.VIEW, (_NAME_GROUP,)),
    "ListGroups": Row(Action.VIEW, (_OF_STREAM,), otherwise=Resource(GROUP, "*")),
    # As `Join` registers a group that is not there.
    "CreateGroup": Row(Action.CONSUME, (Named("name", GROUP, required=True), Named("spec.streams", STREAM))),
    # Members whom it gives a stream that they may not consume lose their place: see `Join`.
    "UpdateGroup": Row(Action.OPERATE, (_NAME_GROUP,)),
    "DeleteGroup": Row(Action.OPERATE, (_NAME_GROUP,)),
    "ListMembers": Row(Action.VIEW, (_OF_GROUP,)),
    "ListLeases": Row(Action.VIEW, (_OF_GROUP, _OF_STREAM)),
    "ExplainLease": Row(Action.VIEW, (Named("lease", STREAM, part=True, required=True), _OF_GROUP)),
    "PreviewPlacement": Row(Action.VIEW, (_OF_GROUP,)),
    # In these an empty group is whichever has the lease or member: that needs a right on every group.
    "PinLease": Row(Action.OPERATE, (_OF_GROUP,)),
    "BanMember": Row(Action.OPERATE, (_OF_GROUP,)),
    "FreezeGroup": Row(Action.OPERATE, (_OF_GROUP,)),
    "DrainMember": Row(Action.OPERATE, (_OF_GROUP,)),
    "SetCapacity": Row(Action.OPERATE, (_OF_GROUP,)),
    "SetSpreading": Row(Action.OPERATE, (_OF_GROUP,)),
    "SetPolicy": Row(Action.OPERATE, (_OF_GROUP,)),
    "SetShadow": Row(Action.OPERATE, (_OF_GROUP,)),
    "SetScaling": Row(Action.OPERATE, (_OF_GROUP,)),
    "SetResponses": Row(Action.OPERATE, (_OF_GROUP,)),
    # KEDA's external scaler: the metadata of a trigger names the group.
    "IsActive": Row(Action.VIEW, (_SCALED_GROUP,)),
    "StreamIsActive": Row(Action.VIEW, (_SCALED_GROUP,)),
    "GetMetricSpec": Row(Action.VIEW, (_SCALED_GROUP,)),
    "GetMetrics": Row(Action.VIEW, (_SCALED_GROUP._replace(field="scaledObjectRef.scalerMetadata"),)),
    "ResetProgress": Row(Action.OPERATE, (_OF_GROUP,)),
    "ResumeLane": Row(Action.OPERATE, (_OF_GROUP,)),
    "SplitBacklog": Row(Action.OPERATE, (_OF_GROUP,)),
    "CloseChannel": Row(Action.SERVE, writes=True),
    "DescribePast": Row(Action.VIEW, (_OF_GROUP, _OF_STREAM)),
    "ListPastGroups": Row(Action.VIEW, otherwise=Resource(GROUP, "*")),
    # Leases that later messages name count only where the assigner granted them to this member.
    "Join": Row(
        Action.CONSUME,
        (Named("hello.group", GROUP, required=True), Named("hello.spec.streams", STREAM)),
        hello="hello",
        streams_of_group=True,
    ),
    # It names tickets of `Join` streams on the same connection, and nothing else.
    "Beat": Row(Action.CONSUME, otherwise=ANYTHING),
}

_LAGMON: Final[Mapping[str, Row]] = {
    "ListLag": Row(
        Action.VIEW, (Named("filter.group", GROUP), Named("filter.stream", STREAM), Named("filter.cluster", CLUSTER))
    ),
    "WatchLag": Row(
        Action.VIEW, (Named("filter.group", GROUP), Named("filter.stream", STREAM), Named("filter.cluster", CLUSTER))
    ),
    "ReadLagColumns": Row(Action.SERVE),
    "ListAlerts": Row(Action.VIEW, (_OF_STREAM, _OF_CLUSTER), otherwise=MESH),
    # An alert's name begins with what it is about: `stream/logs/…`.
    "GetAlert": Row(Action.VIEW, (Named("name", history=True, part=True),)),
    "CreateSilence": Row(Action.OPERATE, (Named("alert", history=True, part=True),)),
    "DeleteSilence": Row(Action.OPERATE, (Named("alert", history=True, part=True),)),
    "ExportAlertRules": Row(Action.VIEW, otherwise=MESH),  # it names no stream: targets are metrics
    "ListLagHistory": Row(Action.VIEW, (Named("filter.group", GROUP), Named("filter.stream", STREAM))),
    "GetProgress": Row(Action.VIEW, (_OF_GROUP, _OF_CLUSTER)),
    # What a process measured of records that it may send or take: it changes figures alone, and comes too often to be
    # recorded as a change. It names every stream and group that it is about.
    "ReportPathways": Row(
        Action.VIEW,
        (
            Named("sent_streams", STREAM, action=Action.PRODUCE),
            Named("received_streams", STREAM, action=Action.CONSUME),
            Named("groups", GROUP, action=Action.CONSUME),
        ),
    ),
    # A pathway names streams and groups that a request about one stream does not: it needs a right on every stream.
    "ListPathways": Row(Action.VIEW, otherwise=Resource(STREAM, "*")),
}

_DLQ: Final[Mapping[str, Row]] = {
    "ListDeadLetters": Row(Action.VIEW, (_OF_STREAM,)),
    "GetDeadLetter": Row(Action.INSPECT, (Named("name", STREAM, part=True),)),
    "CreateReplay": Row(
        Action.OPERATE,
        (
            Named("spec.stream", STREAM, required=True),
            Named("spec.destination", STREAM, part=True, action=Action.PRODUCE),
        ),
    ),
    "GetReplay": Row(Action.VIEW, (Named("id", REPLAY),)),
    "ListReplays": Row(Action.VIEW, (_OF_STREAM,)),
    "PauseReplay": Row(Action.OPERATE, (Named("id", REPLAY),)),
    "ResumeReplay": Row(Action.OPERATE, (Named("id", REPLAY),)),
    "CancelReplay": Row(Action.OPERATE, (Named("id", REPLAY),)),
}

TABLE: Final[Mapping[str, Mapping[str, Row]]] = {
    "registry": {**_REGISTRY, **_COMMON},
    "assigner": {**_ASSIGNER, **_COMMON},
    "lagmon": {**_LAGMON, **_COMMON},
    "dlq": {**_DLQ, **_COMMON},
}


def row_of(service: str, method: str) -> Row | None:
    """The row of a service's method by its name; None when it has none, and nobody may call it."""
    return TABLE.get(service, {}).get(method)
