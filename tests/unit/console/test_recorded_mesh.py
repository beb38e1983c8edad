"""The invented mesh holds only what services answer: a field that none has would make tests of the page lie."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest
from google.protobuf.message import Message

from braid.api.assigner.v1 import group_pb2
from braid.api.dlq.v1 import dead_letter_pb2, replay_pb2
from braid.api.lagmon.v1 import alert_pb2, lag_history_pb2, lag_pb2
from braid.api.registry.v1 import cluster_pb2, stream_pb2
from braid.rpc.documents import entry_value, is_map
from tests.support.console import documents, happenings
from tests.support.console.documents import Document

# Fields that the console's server adds to those of a message.
_ADDED: Final = {"key", "relative_load"}
_ROWS: Final[Mapping[str, tuple[type[Message], list[Document]]]] = {
    "lag of lanes": (lag_pb2.Lag, documents.lags()),
    "lag of partitions": (lag_pb2.Lag, documents.lease_lags()),
    "history": (lag_history_pb2.LagHistory, documents.history()),
    "groups": (group_pb2.Group, documents.groups()),
    "members": (group_pb2.Member, documents.members()),
    "queries of Spark": (group_pb2.Member, documents.spark_jobs()),
    "leases": (group_pb2.Lease, documents.leases()),
    "streams": (stream_pb2.Stream, documents.streams()),
    "clusters": (cluster_pb2.Cluster, [documents.cluster(*each) for each in documents.CLUSTER_STATES]),
    "alerts": (alert_pb2.Alert, happenings.alerts()),
    "letters": (dead_letter_pb2.DeadLetter, happenings.letters()),
    "replays": (replay_pb2.Replay, happenings.replays()),
}


def _unknown(descriptor: Any, row: Document, place: str = "") -> Iterator[str]:
    for name, value in row.items():
        field = descriptor.fields_by_name.get(name)
        if field is None:
            yield from () if name in _ADDED else (f"{place}{name}",)
            continue
        inner = entry_value(field) if is_map(field) else field
        if inner.message_type is None:
            continue
        several = list(value.values()) if is_map(field) else value if isinstance(value, list) else [value]
        for each in several:
            if isinstance(each, Mapping):
                yield from _unknown(inner.message_type, dict(each), f"{place}{name}.")


@pytest.mark.parametrize("kind", _ROWS)
def test_recorded_rows_hold_only_fields_of_messages(kind: str) -> None:
    message, rows = _ROWS[kind]
    assert sorted({each for row in rows for each in _unknown(message.DESCRIPTOR, row)}) == []
