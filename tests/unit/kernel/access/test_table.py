"""Every method has a row, every row a method and fields that exist; who may call what is in the golden matrix."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from braid.kernel.access.roles import Action, Role, role_allows
from braid.kernel.access.table import TABLE, Named, Row, row_of
from tests.unit.kernel.access.api import Method, methods
from tests.unit.kernel.access.matrix import matrix

GOLDEN = Path("tests/golden/access/matrix.txt")
METHODS = methods()
MUTATIONS = ("Create", "Update", "Delete", "Move", "Close", "Release", "Cordon", "Decommission", "End", "Reset")


def fields_of(row: Row) -> Iterator[str]:
    yield from (each.field for each in (*row.names, *row.later))
    if row.hello:
        yield row.hello
    if row.own:
        yield row.own


def find(message: Descriptor, path: str) -> FieldDescriptor | None:
    """The field at a dotted path; None where there is none."""
    first, _, rest = path.partition(".")
    field = message.fields_by_name.get(first)
    if field is None or not rest:
        return field
    return find(field.message_type, rest) if field.message_type is not None and not field.is_repeated else None


def missing_rows(found: Sequence[Method]) -> list[str]:
    return [f"{each.service}/{each.name}" for each in found if row_of(each.service, each.name) is None]


def missing_fields(method: Method, row: Row) -> list[str]:
    return [path for path in fields_of(row) if find(method.request, path) is None]


def test_every_method_has_a_row_and_every_row_a_method() -> None:
    assert missing_rows(METHODS) == [], "a new method needs a row in braid/kernel/access/table.py"
    rows = {(service, name) for service, rows in TABLE.items() for name in rows}
    assert rows - {(each.service, each.name) for each in METHODS} == set()


def test_a_method_without_a_row_is_found() -> None:
    stranger = METHODS[0]._replace(name="DropEverything")
    assert missing_rows([*METHODS, stranger]) == ["registry/DropEverything"]


@pytest.mark.parametrize("method", METHODS, ids=lambda each: f"{each.service}/{each.name}")
def test_the_fields_of_a_row_are_those_of_its_request(method: Method) -> None:
    row = row_of(method.service, method.name)
    assert row is not None
    assert missing_fields(method, row) == []
    for named in (*row.names, *row.later):
        field = find(method.request, named.field)
        assert field is not None
        if named.entry:
            assert field.message_type is not None and field.message_type.GetOptions().map_entry
        else:
            assert field.type == FieldDescriptor.TYPE_STRING
    assert not (row.later or row.hello) or method.client_streams, "only duplex methods have later messages"
    assert not row.names or not method.client_streams or row.hello, "a hello comes once: the row says which field it is"


def test_a_field_that_is_not_there_is_found() -> None:
    row = Row(Action.VIEW, (Named("spec.nobody"),), hello="hello", own="owner")
    assert missing_fields(METHODS[0], row) == ["spec.nobody", "hello", "owner"]


@pytest.mark.parametrize("method", METHODS, ids=lambda each: f"{each.service}/{each.name}")
def test_a_change_is_never_a_viewers(method: Method) -> None:
    row = row_of(method.service, method.name)
    assert row is not None
    if method.name.startswith(MUTATIONS):
        assert row.action in (Action.OPERATE, Action.CHANGE, Action.CONSUME, Action.GRANT, Action.SERVE)
        assert not role_allows(Role.VIEWER, row.action, row.unnamed.kind)


def test_the_golden_matrix_says_who_may_call_what() -> None:
    """A reviewer reads that file; `matrix.py` says how it is written anew."""
    assert GOLDEN.read_text(encoding="utf-8") == matrix()
