"""Requests that a `FuzzedMesh` accepts one after another, by service and method: fuzzing changes them, to get far.

Each text is a message in protobuf's text format. Those of `EARLY` come too early: nothing has happened in the mesh yet.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from google.protobuf import text_format
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from tests.unit.kernel.access.api import Method

_SPEC: Final = (
    'spec {lanes {key: "live" value {partitions: 2}} replication_factor: 1 clusters: "east" clusters: "west"}'
)
_LANES: Final = 'lanes {key: "live" value {partitions: 1}} lanes {key: "bulk" value {partitions: 1}}'
_CHANGED: Final = f'spec {{{_LANES} replication_factor: 1 clusters: "east" clusters: "west" retention_hours: 9'
_GROUP: Final = 'spec {streams: "logs" start {earliest: true}}'
SAMPLES: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "registry": {
        "GetCluster": ['name: "east"'],
        "CreateCluster": ['name: "north" spec {bootstrap: "north:9092" zone: "c"}'],
        "UpdateCluster": ['name: "east" spec {bootstrap: "east:9092" zone: "d" health {down_after_seconds: 2}}'],
        "DeleteCluster": ['name: "north"'],
        "CordonCluster": ['name: "west" cordoned: true', 'name: "west"'],
        "DecommissionCluster": [
            'name: "west" dry_run: true', 'name: "west" reason: "old"', 'name: "west" cancelled: true',
        ],
        "GetStream": ['name: "logs"'],
        "CreateStream": [f'name: "fresh" {_SPEC}', f'name: "other" {_SPEC} dry_run: true'],
        "UpdateStream": [
            f'name: "orders" {_CHANGED} lag_target {{key: "live" value: "5s"}} availability: 99.5}}',
            f'name: "clicks" {_CHANGED} failover: FAILOVER_MODE_PROPOSE}}',
        ],
        "DeleteStream": ['name: "fresh"'],
        "EndDrill": ['stream: "logs" verdict: "it held"'],
        "MoveStream": [
            'stream: "logs" to_cluster: "west"',
            'stream: "logs" to_cluster: "east" lanes: "live" partitions: 3 reason: "why not"',
            'stream: "orders" spread {cluster: "east" weight: 1} spread {cluster: "west" weight: 3}',
            'stream: "orders" to_cluster: "west" percent: 10',
            'stream: "clicks" away_from_cluster: "east"',
        ],
        "CloseChannel": ['channel: "logs/live/1" dry_run: true', 'channel: "logs/live/1" accept_loss {last: 3}'],
        "ReleaseChannel": ['channel: "logs/live/1"'],
        "ListChannels": ['stream: "logs"'],
        "WatchChannels": ["protocol_version: 1"],
        "DescribePast": ['stream: "logs" at_ms: 1767225602000', 'cluster: "east" at_ms: 1767225602000'],
        "ListPastStreams": ["at_ms: 1767225602000", "at_ms: 1767225602000 page_size: 1"],
        "ListPastClusters": ["at_ms: 1767225602000"],
        "GrantAccess": [
            'spec {principal: "dns:ada" role: ACCESS_ROLE_VIEWER resource: "stream/logs" reason: "x"}',
            'spec {principal: "dns:bob" role: ACCESS_ROLE_OPERATOR resource: "mesh"} lasting_ms: 60000',
        ],
        "RevokeAccess": ['principal: "dns:ada" role: ACCESS_ROLE_VIEWER resource: "stream/logs"'],
        "CheckAccess": ['principal: "dns:ada" verb: "move" kind: "stream" name: "logs"'],
        "RevokeIdentity": ['identity: "dns:eve" confirmed: true reason: "lost"', 'identity: "dns:eve" dry_run: true'],
        "LiftRevocation": ['identity: "dns:eve"'],
        "SetTenant": [
            'name: "acme" spec {principals: "spiffe://acme.example/*" quotas {streams: 9 requests_per_second: 900}}',
            'name: "acme" spec {quotas {open_calls: 90}} dry_run: true',
            'name: "acme" spec {kafka_users {name: "shop" clusters: "east"} quotas {producer_bytes_per_second: 90000}}',
        ],
        "SetApprovalPolicy": [
            'name: "careful" spec {verbs: GUARDED_VERB_REPLAY resource: "stream/clicks" letters_over: 5}',
            'name: "strict" spec {verbs: GUARDED_VERB_DELETE_GROUP expire_seconds: 600 reason: "x"} dry_run: true',
        ],
        "DeleteApprovalPolicy": ['name: "careful"'],
        "ClaimApproval": [
            'request {verbs: GUARDED_VERB_DELETE_GROUP resources: "group/indexer" identity: "1" digest: "ab" '
            'asked_by: "dns:ada" needs: "operate group/indexer"} request_id: "r"',
        ],
        "ListArchive": ['history: "registry/stream/logs"'],
        "DeleteTenant": ['name: "acme"'],
        "ListTenants": ['name: "acme"'],
        "ListEvents": ['history: "stream/logs"', 'filter {actor: "ada"}', "newest: 3"],
        "ReadMany": [
            r'parts {method: "ListStreams"} parts {method: "GetStream" request: "\n\004logs"} within_ms: 500',
            r'parts {method: "ListEvents" request: "8\003"}',
        ],
        "VerifyArchive": ['history: "stream/logs"'],
    },
    "assigner": {
        "ReadMany": ['parts {method: "ListGroups"} parts {method: "ListMembers"} parts {method: "ListLeases"}'],
        "ListArchive": ['history: "assigner/group/indexer"'],
        "GetGroup": ['name: "indexer"'],
        "CreateGroup": [f'name: "fresh" {_GROUP}'],
        "UpdateGroup": [f'name: "billing" {_GROUP}', 'name: "indexer" spec {streams: "logs" streams: "clicks"}'],
        "DeleteGroup": ['name: "fresh"'],
        "ListLeases": ['group: "indexer"'],
        "ExplainLease": ['lease: "logs/live/1/0" group: "indexer"'],
        "PreviewPlacement": [
            'group: "indexer" lost_clusters: "east" policy {basis: PLACEMENT_BASIS_LOAD band_high: 0.5 band_low: 0.5}'
        ],
        "PinLease": ['group: "indexer" lease: "logs/live/1/0" member: "ada" absent: true'],
        "BanMember": ['group: "indexer" member: "bob" path: "logs/live" absent: true'],
        "FreezeGroup": ['group: "indexer" frozen: true reason: "x"', 'group: "indexer"'],
        "DrainMember": ['group: "indexer" member: "ada" drained: true absent: true'],
        "SetCapacity": ['group: "indexer" member: "ada" capacity: 2 absent: true'],
        "SetSpreading": ['group: "indexer" zones: ZONE_RULE_PREFER hosts: true'],
        "SetPolicy": ['group: "indexer" policy {basis: PLACEMENT_BASIS_LOAD band_high: 0.5 band_low: 0.5}'],
        "SetShadow": ['group: "indexer" policy {basis: PLACEMENT_BASIS_LOAD band_high: 0.5 band_low: 0.5}'],
        "SetScaling": [
            'group: "indexer" policy {mode: SCALING_MODE_OFF}',
            'group: "indexer" policy {mode: SCALING_MODE_AUTOMATIC min_members: 1 max_members: 9 factor: 2}',
        ],
        "SetResponses": [
            'group: "indexer" policies {kind: RESPONSE_KIND_SHIFT_SHARES mode: RESPONSE_MODE_AUTOMATIC lane: "live"}',
            'group: "indexer" policies {kind: RESPONSE_KIND_SPLIT_BACKLOG mode: RESPONSE_MODE_PROPOSE reach: 0.3}',
        ],
        "IsActive": ['scalerMetadata {key: "group" value: "indexer"}'],
        "StreamIsActive": ['scalerMetadata {key: "group" value: "indexer"}'],
        "GetMetricSpec": ['scalerMetadata {key: "group" value: "indexer"}'],
        "GetMetrics": [
            'metricName: "desired-members" scaledObjectRef {scalerMetadata {key: "group" value: "indexer"}}',
        ],
        "ResetProgress": [
            'group: "billing" to {earliest: true} dry_run: true',
            'group: "billing" stream: "logs" lane: "live" to {time_ms: 1767225602000}',
            'group: "billing" offsets {lease: "logs/live/1/0" offset: 3}',
        ],
        "ResumeLane": ['group: "indexer" lane: "live"'],
        "SplitBacklog": ['group: "indexer" stream: "logs" lane: "live" partition: 0 share: 0.5'],
        "DescribePast": ['group: "indexer" at_ms: 1767225604000', 'stream: "logs" at_ms: 1767225604000'],
        "ListPastGroups": ["at_ms: 1767225604000", "at_ms: 1767225604000 page_size: 1"],
        "CloseChannel": ['channel: "logs/live/1" registry_revision: 1'],
        "Beat": ["sequence: 1 tickets: 1"],
        "Join": ["heartbeat {sequence: 1}", "acknowledge {delta_sequence: 1}", 'leave {reason: "x"}'],
    },
    "lagmon": {
        "ListArchive": ['history: "lagmon/alerts/mesh"'],
        "ReadMany": ['parts {method: "ListAlerts"} parts {method: "ListEvents"}'],
        "ListLag": ["page_size: 1"],
        "WatchLag": [""],
        "ListLagHistory": ["since_ms: 1 until_ms: 90000", 'since_ms: 1 until_ms: 9 filter { group: "indexer" }'],
        "GetProgress": ['group: "indexer" cluster: "east" topic: "braid.logs.live.1" partition: 1'],
        "ReadLagColumns": ['instance: "lagmon-1" life: "x" versions {key: "east" value: 3}'],
        "ListAlerts": ['stream: "logs" include_resolved: true', 'cluster: "east" page_size: 1'],
        "ExportAlertRules": ['runbooks: "https://docs.example/runbooks"'],
        "GetAlert": ['name: "stream/logs/lag-page/live/indexer"'],
        "CreateSilence": ['alert: "stream/logs/lag-page/live/indexer" lasting_ms: 60000 reason: "x"'],
        "ReportPathways": [
            'service: "shop" reporter: "a" sequence: 1 sent_streams: "logs" sent {full {zeros: 2} edge {zeros: 2}}',
            'service: "shop" reporter: "b" sequence: 1 received_streams: "logs" groups: "indexer" '
            "received {parent_hash: 7 full {bins: [3, 265] counts: [1, 1]} edge {bins: 9 counts: 2}}",
        ],
        "ListPathways": ["page_size: 1", 'stream: "logs" window_ms: 3600000'],
        "DeleteSilence": ['alert: "stream/logs/lag-page/live/indexer"'],
    },
    "dlq": {
        "ListArchive": ['history: "dlq/replay/x"'],
        "ReadMany": ['parts {method: "ListReplays"} parts {method: "ListDeadLetters"}'],
        "ListDeadLetters": ["filter: \"group = 'indexer'\""],
        "GetDeadLetter": ['name: "logs/1/0/0"'],
        "CreateReplay": [
            'spec {stream: "logs"}', 'spec {stream: "logs" rate_per_s: 1}', 'spec {stream: "logs"} dry_run: true',
        ],
    },
}  # fmt: skip

EARLY: Final = frozenset(
    {
        "registry/EndDrill",
        "registry/CloseChannel",
        "registry/ReleaseChannel",
        "assigner/CloseChannel",
        "assigner/ResumeLane",
        "assigner/SplitBacklog",
        "lagmon/GetAlert",
        "lagmon/GetProgress",
    }
)


def samples(method: Method) -> Sequence[Message]:
    """Requests of a method that are accepted, new each time."""
    texts = SAMPLES.get(method.service, {}).get(method.name, ())
    return [text_format.Parse(text, GetMessageClass(method.request)()) for text in texts]
