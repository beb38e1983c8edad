"""The work of `describe`: prints one object in full, with related objects and its recent events."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from braid.api.registry.v1 import cluster_pb2
from braid.cli.core.documents import Document, Value, from_document
from braid.cli.core.kinds import CHANNEL, CLUSTER, GROUP, LEASE, MEMBER, STREAM, Kind, Scope
from braid.cli.core.lists import all_channels
from braid.cli.core.output import TABLE_COLUMNS_MAX, Format, Item, render_document, render_table, shortened
from braid.cli.core.session import Session
from braid.cli.core.times import age_text, clock_text, duration_text
from braid.cli.history import feed
from braid.cli.resources.access.tenants import KAFKA_QUOTAS, quota_lines
from braid.cli.resources.clusters.decommission_progress import progress_lines
from braid.cli.resources.clusters.health import evidence_lines, with_evidence
from braid.cli.resources.clusters.loads import load_lines
from braid.cli.resources.columns import COLUMNS
from braid.cli.resources.get import not_found
from braid.cli.resources.group_responses import response_lines
from braid.cli.resources.group_rules import rule_lines
from braid.cli.resources.group_scaling import scaling_lines
from braid.cli.resources.group_streams import DELETED_STREAMS, deleted_lines
from braid.cli.resources.lag.progress import committed_lines, read_progress
from braid.cli.resources.listing import channel_item, cluster_item, list_items
from braid.cli.resources.past_items import read_past
from braid.kernel.ids import epoch_text

_EVENTS_SHOWN: Final = 10
_LABEL_COLUMNS: Final = 26
_RANGE_FIELDS: Final = {"partition", "first", "last"}
_NOT_FIELDS: Final = ("apiVersion", "kind", "metadata", "name", "etag", "create_time_ms", "id", DELETED_STREAMS)
# Fields whose names say less than a person needs.
_LABELS: Final = {
    "lease_ms": "lease time",
    "idle_left_ms": "drains wait for it",
    "idle_alerted": "warned of their end",
    "idle_held": "idle groups kept by",
    "ending_clusters": "membership ends on",
    "resetting_channels": "being reset",
    "reading_channels": "drained, but to read",
    "unread": "gone unread",
}
# Values that mean what they do not say.
_WORDS: Final[Mapping[tuple[str, Value], str]] = {
    ("replication_factor", 0): "default",
    ("capacity", 0): "any",
    ("drain", "unspecified"): "-",
}
_WALL_CLOCK_MS: Final = 1_000_000_000_000  # a later number is a time of day, an earlier one a duration
_SHOWN_APART: Final = ("channels", "topic_id", "decommission", "evidence", "load", KAFKA_QUOTAS)


async def describe_item(session: Session, kind: Kind, name: str, format: Format, at_ms: int = 0) -> int:
    """Prints one object as it is, or as it was at a moment.

    Raises:
        NotFound: no object has that name, or had it then.
        HistoryHole: the moment's events are not kept.
    """
    if at_ms:
        item, related = await read_past(session, kind, name, at_ms)
        session.as_of_ms = min(at_ms, session.now_ms)
    else:
        item = await _find(session, kind, name)
        if kind is CLUSTER:
            item = cluster_item(await with_evidence(session, name))
        if kind is LEASE and (committed := await read_progress(session, item.document)):
            item = item._replace(document={**item.document, "progress": committed})
        related = {each: await _RELATED[kind, each](session, item) for each in _related_kinds(kind)}
    events = await _events(session, kind, name, at_ms)
    if format in (Format.JSON, Format.YAML):
        session.terminal.print(render_document(format, _document(item, related, events)))
        return 0
    parts = [_fields(session, item), *(_table(session, each, items) for each, items in related.items())]
    if isinstance(rules := item.document.get("rules"), dict):
        parts.insert(1, "\n".join(rule_lines(rules, session.now_ms)))
    if told := "\n".join(response_lines(item.document, session.now_ms)):
        parts.insert(1, told)
    if told := "\n".join(scaling_lines(item.document, session.now_ms)):
        parts.insert(1, told)
    if told := "\n".join(deleted_lines(item.document)):
        parts.insert(1, told)
    if kind is LEASE and isinstance(progress := item.document.get("progress"), dict):
        parts.insert(1, "\n".join(committed_lines(progress, session.now_ms)))
    if told := _decommission(session, item):
        parts.insert(1, told)
    if told := _load(session, item):
        parts.insert(1, told)
    if told := _evidence(item):
        parts.insert(1, told)
    if told := "\n".join(quota_lines(item)):
        parts.append(told)
    if kind in (STREAM, CLUSTER, GROUP):
        parts.append(_event_lines(session, events))
    if kind is LEASE:
        parts.append(f"Why it is there:  braid why lease {name}")
    session.terminal.print("\n\n".join(parts))
    return 0


def field_lines(document: Document, depth: int = 0) -> list[str]:
    """A document as aligned lines, `label  value`, nested ones indented."""
    lines: list[str] = []
    for name, value in document.items():
        label = f"{'  ' * depth}{name.replace('_', ' ')}"
        if isinstance(value, dict) and value:
            lines += [f"{label}:", *field_lines(value, depth + 1)]
        else:
            lines.append(f"{label + ':':{_LABEL_COLUMNS}}{_text(value)}".rstrip())
    return lines


async def _find(session: Session, kind: Kind, name: str) -> Item:
    for item in await list_items(session, kind, Scope(name)):
        if item.name == name or kind is MEMBER:
            return item
    raise await not_found(session, kind, Scope(name))


async def _events(session: Session, kind: Kind, name: str, at_ms: int) -> list[Item]:
    if kind not in (STREAM, CLUSTER, GROUP):
        return []
    subject = feed.parse_subject(f"{kind.singular}/{name}")
    found = await feed.list_events(session, subject, until_ms=at_ms, latest=_EVENTS_SHOWN)
    if at_ms:
        found.note_gaps(session)
    return [feed.event_item(each) for each in found.records[-_EVENTS_SHOWN:]]


def _document(item: Item, related: Mapping[Kind, Sequence[Item]], events: Sequence[Item]) -> Document:
    document = dict(item.document)
    for kind, items in related.items():
        document[kind.plural] = [each.document for each in items]
    document["events"] = [each.document for each in events]
    return document


def _fields(session: Session, item: Item) -> str:
    shown: Document = {"name": item.name}
    for name, value in item.document.items():
        if (
            name in _NOT_FIELDS
            or (name == "rules" and isinstance(value, dict))
            or name in ("scaling", "responses", "progress")
        ):
            continue
        if name in ("spec", "status") and isinstance(value, dict):
            shown |= {each: inner for each, inner in value.items() if each not in _SHOWN_APART and _said(each, inner)}
        else:
            shown[name] = value
    lines = field_lines({_label(name): _value(session, name, value) for name, value in shown.items()})
    if item.since_ms:
        lines.insert(1, f"{'age:':{_LABEL_COLUMNS}}{age_text(item.since_ms, session.now_ms)}")
    return "\n".join(lines)


def _said(name: str, value: Value) -> bool:
    """Whether a field is shown: zones that lack a channel are, where there are any."""
    return name != "missing_zones" or bool(value)


def _label(name: str) -> str:
    return _LABELS.get(name, name.removesuffix("_ms"))


def _value(session: Session, name: str, value: Value) -> Value:
    """A field's value for people: times, durations and epochs as other commands write them."""
    if name.endswith("_ms") and isinstance(value, int):
        if value > _WALL_CLOCK_MS:
            return f"{clock_text(value, session.now)} ({age_text(value, session.now_ms)} ago)"
        return duration_text(value)
    if name == "epoch" and isinstance(value, int):
        return epoch_text(value)
    return value if isinstance(value, dict | list | float) else _WORDS.get((name, value), value)


def _decommission(session: Session, item: Item) -> str:
    status = item.document.get("status")
    written = status.get("decommission") if isinstance(status, dict) else None
    if not isinstance(written, dict):
        return ""
    found = cluster_pb2.Decommission()
    from_document(written, found, "status.decommission")
    return "\n".join(progress_lines(session, item.name, found))


def _evidence(item: Item) -> str:
    status = item.document.get("status")
    written = status.get("evidence") if isinstance(status, dict) else None
    if not isinstance(written, dict):
        return ""
    found, spec = cluster_pb2.HealthEvidence(), cluster_pb2.ClusterSpec()
    from_document(written, found, "status.evidence")
    from_document(item.document.get("spec"), spec, "spec")
    return "\n".join(evidence_lines(found, spec.health))


def _load(session: Session, item: Item) -> str:
    status = item.document.get("status")
    written = status.get("load") if isinstance(status, dict) else None
    if not isinstance(written, dict):
        return ""
    found = cluster_pb2.ClusterLoad()
    from_document(written, found, "status.load")
    return "\n".join(load_lines(found, session.now_ms))


def _table(session: Session, kind: Kind, items: Sequence[Item]) -> str:
    if not items:
        return f"{kind.plural.capitalize()}: none"
    table = render_table(COLUMNS[kind], items, session.now_ms, wide=False, narrow=session.terminal.narrow)
    return f"{kind.plural.capitalize()}:\n{table}"


def _event_lines(session: Session, events: Sequence[Item]) -> str:
    lines = [f"Events (the last {len(events)}; all of them: braid events --for TYPE/NAME):"]
    for each in events:
        line = f"{clock_text(each.since_ms, session.now)}  {each.cells[0]}  {each.cells[1]}"
        lines.append((shortened(line, TABLE_COLUMNS_MAX) if session.terminal.narrow else line).rstrip())
    return "\n".join(lines)


def _text(value: Value) -> str:
    if isinstance(value, list):
        return ", ".join(_text(each) for each in value) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict) and value.keys() == _RANGE_FIELDS:
        last = "an unknown end" if value["last"] == -1 else f"{value['last']}"
        return f"partition {value['partition']}: {value['first']} to {last}"
    if isinstance(value, dict) and value:
        return " ".join(f"{name.replace('_', ' ')} {_text(inner)}" for name, inner in value.items())
    return "-" if value in ("", None, {}) else str(value)


async def _channels_of_stream(session: Session, item: Item) -> list[Item]:
    return [channel_item(each) for each in await all_channels(session, stream=item.name)]


async def _channels_of_cluster(session: Session, item: Item) -> list[Item]:
    return [channel_item(each) for each in await all_channels(session, cluster=item.name)]


async def _groups_of_stream(session: Session, item: Item) -> list[Item]:
    return await list_items(session, GROUP, Scope(stream=item.name))


async def _members_of_group(session: Session, item: Item) -> list[Item]:
    return await list_items(session, MEMBER, Scope(group=item.name))


async def _leases_of_group(session: Session, item: Item) -> list[Item]:
    return await list_items(session, LEASE, Scope(group=item.name))


def _related_kinds(kind: Kind) -> list[Kind]:
    return [related for of, related in _RELATED if of is kind]


_RELATED: Final[Mapping[tuple[Kind, Kind], Callable[[Session, Item], Awaitable[list[Item]]]]] = {
    (STREAM, CHANNEL): _channels_of_stream,
    (STREAM, GROUP): _groups_of_stream,
    (CLUSTER, CHANNEL): _channels_of_cluster,
    (GROUP, MEMBER): _members_of_group,
    (GROUP, LEASE): _leases_of_group,
}
