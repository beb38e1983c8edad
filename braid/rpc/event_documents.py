"""Converts events of every service to documents, and to one line of text. Calls no service."""

from collections.abc import Mapping
from typing import Final

from google.protobuf.message import DecodeError, Message

from braid.api.assigner.v1.events_pb2 import AssignerEvent
from braid.api.dlq.v1.events_pb2 import DlqEvent
from braid.api.lagmon.v1.events_pb2 import LagmonEvent
from braid.api.mesh.v1.archive_pb2 import ArchiveEvent
from braid.api.registry.v1.approval_pb2 import ApprovalEvent
from braid.api.registry.v1.events_pb2 import RegistryEvent
from braid.api.registry.v1.grant_pb2 import AccessEvent
from braid.api.registry.v1.revocation_pb2 import RevocationEvent
from braid.api.registry.v1.tenant_pb2 import TenantEvent
from braid.rpc.documents import Document, to_document

_DECIDED: Final[Mapping[str, type[Message]]] = {
    "registry": RegistryEvent,
    "assigner": AssignerEvent,
    "dlq": DlqEvent,
    "lagmon": LagmonEvent,
}
_BODIES: Final[Mapping[str, type[Message]]] = {
    **_DECIDED,
    "archive": ArchiveEvent,
    "access": AccessEvent,
    "identities": RevocationEvent,
    "tenants": TenantEvent,
    "approvals": ApprovalEvent,
}
EVENT_SERVICES: Final = tuple(_DECIDED)  # those with events of their own
_CHANNEL: Final = {"lane", "generation"}
_LETTER: Final = {"generation", "partition", "offset"}
_FIGURE: Final = {"name", "value"}
_UNREAD: Final = {"topic", "topic_id", "kafka_cluster_id"}
_SELF_EVIDENT: Final = {"channel", "spec", "reason"}


def event_body(service: str, data: bytes) -> Document:
    """The content of an event; empty if this release does not know its service or type."""
    kind = _BODIES.get(service)
    if kind is None:
        return {}
    event = kind()
    try:
        event.ParseFromString(data)
    except DecodeError:
        return {}
    oneofs = [each for each in ("later", "event") if each in event.DESCRIPTOR.oneofs_by_name]
    name = next((name for each in oneofs if (name := event.WhichOneof(each))), None)
    return to_document(getattr(event, name)) if name else {}


def summary(body: Document) -> str:
    """An event's content on one line, without empty fields and internal ids."""
    parts = [_short({name: body[name] for name in _CHANNEL})] if body.keys() >= _CHANNEL else []
    for name, value in body.items():
        if value not in ("", 0, [], {}, None) and name not in _CHANNEL | _UNREAD:
            parts.append(_short(value) if name in _SELF_EVIDENT else f"{name}={_short(value)}")
    return " ".join(parts)


def _short(value: object) -> str:
    """A value on one line: channels and leases by name, lanes as `live=4`, several lists in brackets."""
    if isinstance(value, dict):
        return _short_mapping(value)
    if isinstance(value, list):
        inner = ",".join(map(_short, value))
        return f"[{inner}]" if len(value) > 1 else inner
    return str(value).lower() if isinstance(value, bool) else str(value)


def _short_mapping(value: Mapping[str, object]) -> str:
    if value.keys() >= _CHANNEL:
        return f"{value['lane']}/{value['generation']}"
    if value.keys() == _LETTER:  # as the end of a dead letter's name
        return f"{value['generation']}/{value['partition']}/{value['offset']}"
    if value.keys() == _FIGURE and isinstance(figure := value["value"], int | float):
        return f"{value['name']}={figure:g}"
    if "lease" in value:
        return str(value["lease"])
    if value.keys() == {"partitions"}:
        return str(value["partitions"])
    filled = {name: each for name, each in value.items() if each not in ("", 0, [], {})}
    return ",".join(f"{name}={_short(each)}" for name, each in filled.items())
