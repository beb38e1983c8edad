"""How an SQLite file is recognised as a store."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from braid.stores import sqlite_schema


class Overtaken(sqlite3.Connection):
    """Another process comes between the first statement that reads and the next."""

    between: Callable[[], None] | None = None

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        cursor = super().execute(sql, *parameters)
        between = self.between
        if between is not None and sql == "PRAGMA application_id":
            self.between = None
            between()
        return cursor


def test_a_file_becoming_a_store_elsewhere_is_not_called_foreign(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    other = sqlite3.connect(path, isolation_level=None)
    sqlite_schema.prepare(other)

    def make() -> None:
        other.execute("BEGIN IMMEDIATE")
        sqlite_schema.create(other, path)
        other.execute("COMMIT")

    mine = sqlite3.connect(path, timeout=0, isolation_level=None, factory=Overtaken)
    mine.between = make
    assert not sqlite_schema.recognise(mine, path), "it was empty at the moment that was looked at"
    assert sqlite_schema.recognise(mine, path)
    mine.close()
    other.close()
