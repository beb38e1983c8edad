"""A checkpoint is refused beside another stream, group or table, and accepted again beside its own."""

from pathlib import Path

import pytest

from braid.kernel.errors import Invalid
from pipelines import checkpoint
from pipelines.checkpoint import Binding


def test_a_checkpoint_is_accepted_beside_what_it_was_bound_to(tmp_path: Path) -> None:
    checkpoint.check(tmp_path, "logs", "events", None)
    checkpoint.bind(tmp_path, Binding("logs", "events", "t1"))
    checkpoint.check(tmp_path, "logs", "events", "t1")


@pytest.mark.parametrize(
    ("stream", "group", "table", "field", "says"),
    [
        ("other", "events", "t1", "--stream", "is of stream 'logs', not 'other'"),
        ("logs", "other", "t1", "--group", "is of group 'events', not 'other'"),
        ("logs", "events", "t2", "--checkpoint", "belongs to another table"),
        ("logs", "events", None, "--checkpoint", "belongs to another table"),
    ],
)
def test_a_checkpoint_of_another_is_refused(
    tmp_path: Path, stream: str, group: str, table: str | None, field: str, says: str
) -> None:
    checkpoint.bind(tmp_path, Binding("logs", "events", "t1"))
    with pytest.raises(Invalid, match=says) as refused:
        checkpoint.check(tmp_path, stream, group, table)
    assert refused.value.field == field
    assert refused.value.remedy


def test_binding_again_changes_nothing(tmp_path: Path) -> None:
    checkpoint.bind(tmp_path, Binding("logs", "events", "t1"))
    checkpoint.bind(tmp_path, Binding("logs", "events", "t2"))
    checkpoint.check(tmp_path, "logs", "events", "t1")


def test_a_checkpoint_of_another_kind_of_query_is_refused(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    with pytest.raises(Invalid, match="no event store"):
        checkpoint.check(tmp_path, "logs", "events", None)


def test_a_damaged_note_is_refused(tmp_path: Path) -> None:
    (tmp_path / checkpoint.NOTE).write_text('{"stream": ')
    with pytest.raises(Invalid, match="cannot be read"):
        checkpoint.check(tmp_path, "logs", "events", None)


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Invalid, match="cannot be written") as refused:
        checkpoint.bind(tmp_path / "file" / "below", Binding("logs", "events", "t1"))
    assert refused.value.field == "--checkpoint"
