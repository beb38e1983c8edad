"""The work of `get`: lists objects once, or prints them again whenever they change."""

import asyncio
from collections.abc import Sequence
from typing import Final

from braid.cli.core.kinds import ALERT, DEADLETTER, Kind, Scope
from braid.cli.core.limits import CLI_WATCH_SECONDS
from braid.cli.core.output import Format, Item, render, render_line
from braid.cli.core.session import Session
from braid.cli.errors import nearest
from braid.cli.resources.alerts.listing import is_changed, resolved_alerts
from braid.cli.resources.columns import COLUMNS
from braid.cli.resources.listing import declaration, list_items
from braid.cli.resources.past_items import list_past
from braid.kernel.errors import NotFound, Unavailable

_DOCUMENTS: Final = (Format.JSON, Format.YAML)


async def get_items(
    session: Session, kind: Kind, scope: Scope, format: Format, status: bool = False, at_ms: int = 0
) -> int:
    """Prints all objects of a type within a scope, once: in the form that `apply` takes, or with their status.

    Raises:
        NotFound: no object has the given name, or had it at that moment.
    """
    items = _shown(await _listed(session, kind, scope, at_ms), status)
    if scope.name and not items and at_ms:
        raise NotFound(f"there was no {kind.singular} {scope.name} at that moment", field="name")
    if scope.name and not items:
        raise await not_found(session, kind, scope)
    if not items and format in (Format.TABLE, Format.WIDE):
        session.terminal.note(f"there {'were' if at_ms else 'are'} no {kind.plural}{' then' if at_ms else ''}")
        return 0
    exact = bool(scope.name) and len(items) == 1 and items[0].name == scope.name
    narrow = session.terminal.narrow
    text = render(format, COLUMNS[kind], items, session.now_ms, narrow=narrow, listed=not exact)
    session.terminal.print_table(format, text)
    return 0


async def _listed(session: Session, kind: Kind, scope: Scope, at_ms: int) -> list[Item]:
    if not at_ms:
        return await list_items(session, kind, scope)
    session.as_of_ms = min(at_ms, session.now_ms)
    return [item for item in await list_past(session, kind, at_ms) if scope.name in ("", item.name)]


async def watch_items(session: Session, kind: Kind, scope: Scope, format: Format, status: bool = False) -> int:
    """Prints present objects, then every one that changes or goes, until interrupted."""
    session.interrupt_code = 0
    shown: dict[str, Item] = {}
    header = True
    while True:
        try:
            items = {_key(item): item for item in _shown(await list_items(session, kind, scope), status)}
        except Unavailable as error:  # a watch outlives its mesh's restarts
            session.terminal.progress(f"waiting: {error.message}")
            await asyncio.sleep(CLI_WATCH_SECONDS)
            continue
        changed = [item for key, item in items.items() if key not in shown or _differs(kind, item, shown[key], format)]
        left = [item for key, item in shown.items() if key not in items]
        if kind is ALERT:
            resolved, left = await resolved_alerts(session, left)
            changed += _shown(resolved, status)
        gone = [
            item._replace(cells=["gone", *[""] * (len(item.cells) - 1)])
            for item in left
            if kind is not DEADLETTER  # only the newest of them are looked at
        ]
        if changed or gone or header:
            _print_changes(session, kind, format, changed, gone, [*items.values()], header)
            header = False
        shown = items
        await asyncio.sleep(CLI_WATCH_SECONDS)


def _print_changes(
    session: Session,
    kind: Kind,
    format: Format,
    changed: list[Item],
    gone: list[Item],
    beside: list[Item],
    header: bool,
) -> None:
    if format is Format.JSON:
        lines = [render_line(item.document) for item in changed]
        lines += [render_line({**item.document, "deleted": True}) for item in gone]
    else:
        items = changed if format in _DOCUMENTS else [*changed, *gone]
        shown, narrow = COLUMNS[kind], session.terminal.narrow
        text = render(format, shown, items, session.now_ms, narrow=narrow, listed=False, header=header, beside=beside)
        lines = [text] if text else []
    for line in lines:
        session.terminal.print_table(format, line)


def _key(item: Item) -> str:
    """Identifies an item: leases of one name exist in every group, and a principal may have several grants."""
    return f"{item.document.get('group', '')}/{item.reference}"


def _differs(kind: Kind, one: Item, other: Item, format: Format) -> bool:
    if kind is ALERT:
        return is_changed(one, other)
    return one.document != other.document or (format not in _DOCUMENTS and one.cells != other.cells)


def _shown(items: Sequence[Item], status: bool) -> list[Item]:
    return [item if status else item._replace(document=declaration(item.document)) for item in items]


async def not_found(session: Session, kind: Kind, scope: Scope) -> NotFound:
    """The error for an unknown name, with the nearest existing one."""
    names = [item.name for item in await list_items(session, kind, scope._replace(name=""))]
    close = nearest(scope.name, names)
    remedy = f"did you mean {close}?" if close else f"list what there is: braid get {kind.plural}"
    return NotFound(f"there is no {kind.singular} {scope.name}", remedy=remedy)
