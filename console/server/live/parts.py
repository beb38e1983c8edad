"""Parts of a page, and the changes between two states of a part. Pure."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from braid.rpc.documents import Document, Value
from console.server.problems import Problem


class Table(NamedTuple):
    """Rows by key; `more` says that some were left out at the bound."""

    rows: Mapping[str, Document]
    more: bool = False


class Single(NamedTuple):
    """One value; None while nothing is known of it."""

    value: Document | None


Content = Table | Single

EMPTY_TABLE: Final = Table({})
NOTHING: Final = Single(None)


class Part(NamedTuple):
    """A part of a page.

    Attributes:
        content: What is shown.
        as_of_ms: When it was read, by the wall clock; 0 for never.
        stale: The last read failed, or there was none: what is shown is older.
        problem: Why; None where nothing is wrong.
    """

    content: Content
    as_of_ms: int = 0
    stale: bool = True
    problem: Problem | None = None

    def answered(self, content: Content, now_ms: int) -> "Part":
        """The part after a read that was answered."""
        return Part(content, now_ms, False, None)

    def failed(self, problem: Problem, now_ms: int) -> "Part":
        """The part after a failed read: the last content stays, unless the failure means that it must not be shown."""
        if not problem.forgets:
            return self._replace(stale=True, problem=problem)
        return Part(EMPTY_TABLE if isinstance(self.content, Table) else NOTHING, now_ms, False, problem)

    def document(self) -> Document:
        """The whole part as JSON has it."""
        if isinstance(self.content, Table):
            rows: list[Value] = [_row(key, row) for key, row in self.content.rows.items()]
            return {"kind": "table", "rows": rows, **self._state(), "more": self.content.more}
        return {"kind": "value", "value": self.content.value, **self._state()}

    def change_from(self, before: "Part") -> Document | None:
        """The change from an earlier state as JSON has it; None where nothing changed."""
        if self == before:
            return None
        if isinstance(self.content, Table) and isinstance(before.content, Table):
            changes: Document = {**_row_changes(before.content.rows, self.content.rows), **self._state()}
            return {**changes, "more": self.content.more}
        changed: Document = {} if self.content == before.content else {"value": _value(self.content)}
        return {**changed, **self._state()}

    def _state(self) -> Document:
        error: Value = self.problem.document() if self.problem is not None else None
        return {"as_of_ms": self.as_of_ms, "stale": self.stale, "error": error}


def _value(content: Content) -> Document | None:
    assert isinstance(content, Single), "a part keeps its kind"
    return content.value


def _row(key: str, row: Document) -> Document:
    return {"key": key, **row}


def _row_changes(before: Mapping[str, Document], after: Mapping[str, Document]) -> Document:
    put: list[Value] = [_row(key, row) for key, row in after.items() if before.get(key) != row]
    removed: list[Value] = [key for key in before if key not in after]
    return {**({"set": put} if put else {}), **({"removed": removed} if removed else {})}
