"""Tables, colours, times, documents, errors: what everything printed is made of."""

import io
from datetime import UTC, datetime

import pytest

from braid.api.registry.v1.stream_pb2 import FAILOVER_MODE_OFF, Channel, LaneSpec, StreamSpec
from braid.cli.core.documents import from_document, to_document
from braid.cli.core.output import Column, Columns, Format, Item, coloured, parse_format, render, wrapped
from braid.cli.core.terminal import Terminal
from braid.cli.core.times import age_text, clock_text, parse_time, to_ms
from braid.cli.errors import error_text, nearest, not_built
from braid.kernel.errors import Conflict, Invalid, NotFound, Unavailable
from tests.unit.cli.mesh import TerminalText, virtual

NOW = datetime(2026, 11, 21, 14, 30, tzinfo=UTC)
COLUMNS = Columns((Column("STATE"), Column("WHY", shrinks=True), Column("ID", wide=True)))


def item(name: str, why: str) -> Item:
    """A row."""
    return Item(name, f"thing/{name}", ("DOWN", why, "7"), to_ms(NOW) - 60_000, {"name": name})


def test_long_cells_give_way_and_names_do_not() -> None:
    name = "n" * 40
    table = render(Format.TABLE, COLUMNS, [item(name, "because " * 20)], to_ms(NOW), narrow=True)
    assert [len(line) <= 80 for line in table.splitlines()] == [True, True]
    assert table.splitlines()[1].startswith(name)
    assert "…" in table
    wide = render(Format.WIDE, COLUMNS, [item(name, "because " * 20)], to_ms(NOW), narrow=True)
    assert "because because" in wide
    assert wide.splitlines()[0].split() == ["NAME", "STATE", "WHY", "ID", "AGE"]


def test_a_table_that_is_not_narrow_is_whole() -> None:
    table = render(Format.TABLE, COLUMNS, [item("n", "because " * 20)], to_ms(NOW), narrow=False)
    assert "because " * 20 in table and "…" not in table
    assert table.splitlines()[0].split() == ["NAME", "STATE", "WHY", "AGE"]


def test_what_is_piped_is_not_narrow() -> None:
    assert Terminal(TerminalText(), TerminalText(), {}).narrow
    assert not Terminal(io.StringIO(), TerminalText(), {}).narrow


def test_formats() -> None:
    items = [item("a", ""), item("b", "")]
    assert render(Format.NAME, COLUMNS, items, 0, narrow=True) == "thing/a\nthing/b"
    assert render(Format.YAML, COLUMNS, items[:1], 0, narrow=True, listed=False) == "---\nname: a"
    table = render(Format.TABLE, COLUMNS, items[:1], to_ms(NOW), narrow=True)
    assert table == "NAME  STATE  WHY  AGE\na     DOWN   -    60s"
    with pytest.raises(Invalid, match="is no output format here"):
        parse_format("wide", (Format.JSON,))


def test_colours_are_for_terminals_that_want_them() -> None:
    table = "NAME  STATE\nDOWN  DOWN   x"
    assert coloured(table) == "NAME  STATE\nDOWN  \x1b[31mDOWN\x1b[0m   x"
    terminal = TerminalText()
    for environment, colours in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
        assert Terminal(terminal, terminal, environment).colours is colours


@virtual
async def test_a_wait_shows_a_sign_of_life_on_a_terminal() -> None:
    import asyncio

    err = TerminalText()
    terminal = Terminal(TerminalText(), err, {})
    async with terminal.waiting("thinking"):
        await asyncio.sleep(1.0)
    assert "⠋ thinking" in err.getvalue()
    assert err.getvalue().endswith("\r\x1b[2K")
    quick = TerminalText()
    async with Terminal(TerminalText(), quick, {}).waiting("thinking"):
        await asyncio.sleep(0.1)
    assert quick.getvalue() == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T14:03:00Z", datetime(2026, 11, 21, 14, 3, tzinfo=UTC)),
        ("2026-11-20 09:00", datetime(2026, 11, 20, 9, 0, tzinfo=UTC)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("14:03", datetime(2026, 11, 21, 14, 3, tzinfo=UTC)),
        ("9:03:07", datetime(2026, 11, 21, 9, 3, 7, tzinfo=UTC)),
        ("10m", datetime(2026, 11, 21, 14, 20, tzinfo=UTC)),
        ("2h ago", datetime(2026, 11, 21, 12, 30, tzinfo=UTC)),
        ("3d", datetime(2026, 11, 18, 14, 30, tzinfo=UTC)),
    ],
)
def test_times_people_write(text: str, expected: datetime) -> None:
    assert parse_time(text, NOW, "--at") == expected


@pytest.mark.parametrize("text", ["", "noon", "25:00", "9999999999d", "10", "-5m", "2026-13-01"])
def test_times_nobody_can_read(text: str) -> None:
    with pytest.raises(Invalid, match="is not a time"):
        parse_time(text, NOW, "--at")


def test_ages_and_clocks() -> None:
    seconds = (0, 119, 300, 310, 3_600, 7_200, 172_799, 172_800)
    now_ms = to_ms(NOW)
    assert [age_text(now_ms - each * 1_000, now_ms) for each in seconds] == [
        *("0s", "119s", "5m", "5m10s", "60m", "2h", "47h", "2d")
    ]
    assert (age_text(0, now_ms), age_text(now_ms + 5_000, now_ms)) == ("-", "0s")
    assert clock_text(now_ms + 7, NOW) == "14:30:00.007"
    assert clock_text(now_ms - 86_400_000, NOW) == "2026-11-20 14:30:00.000"


def test_documents_there_and_back() -> None:
    spec = StreamSpec(
        lanes={"live": LaneSpec(partitions=4)}, clusters=["a"], failover=FAILOVER_MODE_OFF, topic_config={"k": "v"}
    )
    document = to_document(spec)
    assert (document["lanes"], document["failover"]) == ({"live": {"partitions": 4}}, "off")
    again = StreamSpec()
    from_document(document, again, "spec")
    assert again == spec
    channel = to_document(Channel(topic_id=b"\x01\xff", generation=1 << 40, end_offsets=[1, 2]))
    assert (channel["topic_id"], channel["generation"], channel["end_offsets"]) == ("01ff", 1 << 40, [1, 2])


def test_errors_say_what_to_try() -> None:
    assert error_text(Invalid("is empty", field="spec.lanes", remedy="name one")) == (
        "braid: spec.lanes: is empty\n  try: name one"
    )
    for error in (NotFound("x"), Conflict("x"), Unavailable("x")):
        assert "\n  try: " in error_text(error)
    assert error_text(not_built("`braid reset`")).startswith("braid: `braid reset` is not built yet\n")
    assert (nearest("STREMS", ["streams", "groups"]), nearest("xyz", ["streams"])) == ("streams", "")


def test_sentences_are_broken_on_a_terminal_alone() -> None:
    sentence = "its archive file:///var/lib/braid/services/registry-0/archive is whole: 0 B"
    assert wrapped(sentence, 30, narrow=False) == [sentence]
    assert wrapped(sentence, 30, narrow=True, indent="  ") == [
        "its archive",
        "  file:///var/lib/braid/services/registry-0/archive",
        "  is whole: 0 B",
    ]
    assert wrapped("", 30, narrow=True) == [""]
