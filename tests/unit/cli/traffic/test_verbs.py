"""`produce` and `consume`: lines become records, records become lines, with a group and without."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence

import pytest

from braid.cli.core.record_documents import text_or_base64
from braid.cli.core.terminal import Terminal
from braid.cli.traffic.consume import header_line
from braid.cli.traffic.produce import Line, batches, produce_lines
from braid.kernel.errors import Invalid
from braid.kernel.limits.registry.resources import RECORD_BYTES_MAX
from tests.unit.cli.mesh import Result, Shell, TerminalText, virtual


async def chunks(*data: bytes) -> AsyncIterator[bytes]:
    """Stdin, as it comes."""
    for each in data:
        yield each


async def produce(shell: Shell, data: bytes, *, lane: str = "", delimiter: bytes = b"") -> Result:
    """Sends lines to stream `logs`."""
    return await shell.work(lambda session: produce_lines(session, "logs", lane, delimiter, 120.0, chunks(data)))


async def with_stream(*clusters: str) -> Shell:
    """A stream on the first of some clusters."""
    shell = await Shell().start(*(clusters or ("east",)))
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1", "--lane", "bulk=1")).code == 0
    return shell


async def collected(*data: bytes, delimiter: bytes = b"") -> list[Sequence[Line]]:
    """The batches that `batches` makes of stdin."""
    return [batch async for batch in batches(chunks(*data), delimiter)]


async def test_lines_come_out_whole_however_they_arrive() -> None:
    assert await collected(b"on", b"e\ntwo\n\nla", b"st") == [
        [Line(1, None, b"one"), Line(2, None, b"two"), Line(3, None, b"")],
        [Line(4, None, b"last")],
    ]


async def test_keys_stand_before_the_delimiter() -> None:
    assert await collected(b"k:v:w\n:x\n", delimiter=b":") == [[Line(1, b"k", b"v:w"), Line(2, b"", b"x")]]


async def test_a_line_without_its_key_ends_it_after_the_lines_before() -> None:
    got: list[Sequence[Line]] = []
    with pytest.raises(Invalid, match="line 3 has no ':'"):
        async for batch in batches(chunks(b"a:1\nb:2\nnothing\nc:3\n"), b":"):
            got.append(batch)
    assert got == [[Line(1, b"a", b"1"), Line(2, b"b", b"2")]]


async def test_a_line_longer_than_any_record_is_refused() -> None:
    with pytest.raises(Invalid, match="line 1 is longer"):
        await collected(b"x" * (RECORD_BYTES_MAX + 1))


@virtual
async def test_what_is_produced_is_consumed() -> None:
    shell = await with_stream()
    produced = await produce(shell, b"host-1:hello\nhost-2:world\n", delimiter=b":")
    assert (produced.code, produced.err) == (0, "")
    assert produced.out.startswith("stream/logs 2 records acknowledged in ")
    assert produced.out.endswith(": live on east 2\n")
    assert await shell.braid("consume", "logs", "--from", "earliest", "--max", "2") == Result(0, "hello\nworld\n", "")


@virtual
async def test_records_as_json() -> None:
    shell = await with_stream()
    await produce(shell, b"k:v\n", lane="bulk", delimiter=b":")
    printed = json.loads((await shell.braid("consume", "logs", "--max", "1", "-o", "json")).out)
    assert printed.pop("timestamp_ms") == printed.pop("ingested_at_ms") > 1_700_000_000_000
    assert printed.pop("headers").keys() == {"braid-id", "braid-ts", "braid-lane"}
    assert printed.pop("id").endswith(":1")
    assert printed == {
        **{"stream": "logs", "lane": "bulk", "cluster": "east", "topic": "braid.logs.bulk.1"},
        **{"partition": 0, "offset": 0, "key": "k", "value": "v"},
    }


@virtual
async def test_a_group_keeps_its_progress() -> None:
    shell = await with_stream()
    await produce(shell, b"1\n2\n3\n")
    assert (await shell.braid("consume", "logs", "--group", "g", "--max", "2")).out == "1\n2\n"
    assert (await shell.braid("consume", "logs", "--group", "g", "--max", "1")).out == "3\n"
    assert (await shell.braid("get", "groups", "-o", "name")).out == "group/g\n"


@virtual
async def test_without_a_group_nothing_is_kept() -> None:
    shell = await with_stream()
    await produce(shell, b"1\n2\n")
    for _ in range(2):
        assert (await shell.braid("consume", "logs", "--timeout", "2")).out == "1\n2\n"
    assert (await shell.braid("get", "groups")).out == ""


@virtual
async def test_latest_shows_what_comes_and_lanes_can_be_chosen() -> None:
    shell = await with_stream()
    await produce(shell, b"old\n")
    consuming = asyncio.ensure_future(
        shell.braid("consume", "logs", "--from", "latest", "--lane", "live", "--timeout", "5")
    )
    await asyncio.sleep(1.0)
    await produce(shell, b"elsewhere\n", lane="bulk")
    await produce(shell, b"new\n")
    assert (await consuming).out == "new\n"


@virtual
async def test_a_time_begins_where_it_says() -> None:
    shell = await with_stream()
    await produce(shell, b"old\n")
    await asyncio.sleep(10.0)
    await produce(shell, b"new\n")
    assert (await shell.braid("consume", "logs", "--from", "2026-01-01T00:00:05Z", "--max", "1")).out == "new\n"


@virtual
async def test_reading_follows_the_stream_to_another_cluster() -> None:
    shell = await with_stream("east", "west")
    await produce(shell, b"first\n")
    consuming = asyncio.ensure_future(shell.braid("consume", "logs", "--max", "2"))
    await asyncio.sleep(1.0)
    assert (await shell.braid("move", "stream", "logs", "--to", "west")).code == 0
    await produce(shell, b"second\n")
    assert (await consuming).out == "first\nsecond\n"


@virtual
async def test_channels_found_while_a_cluster_is_asked_are_read_too() -> None:
    shell = await with_stream("east", "west")
    await produce(shell, b"on east\n")
    assert (await shell.braid("move", "stream", "logs", "--to", "west")).code == 0
    await produce(shell, b"on west\n")
    for latency_ms in range(1, 20):
        shell.kafka_latency_seconds = latency_ms / 4_000
        printed = (await shell.braid("consume", "logs", "--max", "2", "--timeout", "10")).out
        assert sorted(printed.splitlines()) == ["on east", "on west"], latency_ms


@virtual
async def test_a_cluster_that_is_away_is_named() -> None:
    shell = await with_stream("east", "west")
    await produce(shell, b"first\n")
    shell.kafka.named("east").kill()
    result = await shell.braid("consume", "logs", "--timeout", "10")
    assert result.code == 0
    assert result.err == "braid: cluster east cannot be reached; what lies there comes when it is back\n"


@virtual
async def test_ctrl_c_ends_a_consumer_in_order() -> None:
    shell = await with_stream()
    await produce(shell, b"1\n")
    assert await shell.braid("consume", "logs", seconds=5.0) == Result(0, "1\n", "")


@virtual
async def test_ctrl_c_before_a_bounded_consumer_is_full_interrupts() -> None:
    shell = await with_stream()
    await produce(shell, b"1\n")
    assert await shell.braid("consume", "logs", "--max", "20", seconds=5.0) == Result(130, "1\n", "")
    assert await shell.braid("consume", "logs", "--timeout", "20", seconds=5.0) == Result(130, "1\n", "")


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("consume lgos", 4, "did you mean logs?"),
        ("consume logs --lane lvie", 4, "it has bulk, dlq, live"),
        ("consume logs --partition 7", 4, "no channel of logs has a partition 7"),
        ("consume logs --from yesterday", 2, "'yesterday' is not a time"),
        ("consume logs --group g --partition 0", 2, "leased, not chosen"),
        ("consume logs --group No", 2, "group"),
        ("consume lgos --group g", 4, "did you mean logs?"),
        ("consume logs --group g --lane lvie", 4, "use bulk, dlq, live"),
        ("consume logs -o yaml", 2, "use one of table, json"),
        ("consume logs --max -1", 2, "--max"),
    ],
)
def test_bad_input_gets_a_precise_error(line: str, code: int, told: str) -> None:
    @virtual
    async def scenario() -> None:
        shell = await with_stream()
        result = await shell.braid(*line.split())
        assert (result.code, result.out) == (code, "")
        assert told in result.err

    scenario()


@virtual
async def test_producing_to_what_is_not_there() -> None:
    shell = await with_stream()
    result = await shell.work(lambda session: produce_lines(session, "lgos", "", b"", 9.0, chunks(b"x\n")))
    assert (result.code, result.err.splitlines()[1]) == (4, "  try: did you mean logs?")
    result = await produce(shell, b"x\n", lane="lvie")
    assert result.code == 4
    assert result.err.startswith("braid: line 1: stream logs has no lane")


@virtual
async def test_what_was_acknowledged_before_an_error_is_counted() -> None:
    shell = await with_stream()
    result = await produce(shell, b"a:1\nb:2\nnothing\n", delimiter=b":")
    assert result.code == 2
    assert result.out.startswith("stream/logs 2 records acknowledged")
    assert "line 3 has no ':'" in result.err


@virtual
async def test_nothing_on_stdin() -> None:
    shell = await with_stream()
    assert await produce(shell, b"") == Result(0, "", "braid: stdin was empty; nothing was sent\n")


def test_bytes_that_are_no_text() -> None:
    assert [text_or_base64(each) for each in (b"ok", b"\xff\x00", None)] == ["ok", {"base64": "/wA="}, None]


def test_a_terminal_shows_control_characters_and_obeys_none() -> None:
    out = TerminalText()
    Terminal(out, TerminalText(), {}).print_bytes(b"red \x1b[31m\ttab \xe4")
    assert out.getvalue() == "red \\x1b[31m\ttab �\n"


@virtual
async def test_a_filter_prints_only_what_matches() -> None:
    """Two comparisons, one of a field of JSON; records that do not match do not count for `--max`."""
    shell = await with_stream()
    await produce(shell, b'a:{"n": 1}\na:{"n": 2}\nb:{"n": 3}\na:no json\na:{"n": 4}\n', delimiter=b":")
    wanted = ("consume", "logs", "--filter", "key=a and json.n>1")
    assert (await shell.braid(*wanted, "--timeout", "2")).out == '{"n": 2}\n{"n": 4}\n'
    assert (await shell.braid(*wanted, "--max", "1")).out == '{"n": 2}\n'


@virtual
async def test_a_wait_ends_although_other_records_come() -> None:
    """`--timeout` counts from the last record that matched."""
    shell = await with_stream()
    consuming = asyncio.ensure_future(
        shell.braid("consume", "logs", "--filter", "value=wanted", "--timeout", "5", "--from", "latest")
    )
    for _ in range(20):
        await asyncio.sleep(1.0)
        await produce(shell, b"other\n")
    assert consuming.done()
    assert (await consuming).out == ""


@virtual
async def test_one_cluster_is_read_alone() -> None:
    """A cluster that does not exist is an error with the nearest name, and no endless wait."""
    shell = await with_stream("east", "west")
    await produce(shell, b"first\n")
    assert (await shell.braid("move", "stream", "logs", "--to", "west")).code == 0
    await produce(shell, b"second\n")
    assert (await shell.braid("consume", "logs", "--cluster", "west", "--timeout", "2")).out == "second\n"
    assert (await shell.braid("consume", "logs", "--cluster", "east", "--timeout", "2")).out == "first\n"
    unknown = await shell.braid("consume", "logs", "--cluster", "wst", "--timeout", "2")
    assert unknown.code != 0
    assert "did you mean west?" in unknown.err


@virtual
async def test_headers_stand_before_the_value() -> None:
    shell = await with_stream()
    await produce(shell, b"v\n")
    headers, _, value = (await shell.braid("consume", "logs", "--headers", "--max", "1")).out.partition("\t")
    assert [each.partition(":")[0] for each in headers.split(",")] == ["braid-id", "braid-ts", "braid-lane"]
    assert value == "v\n"
    assert header_line([]) == b"NO_HEADERS"
    assert header_line([("a", b"1"), ("a", None)]) == b"a:1,a:"


@virtual
async def test_a_filter_is_not_for_a_group() -> None:
    """A group would commit what was not printed."""
    shell = await with_stream()
    for option in (("--filter", "key=a"), ("--cluster", "east")):
        refused = await shell.braid("consume", "logs", "--group", "g", *option)
        assert refused.code != 0
        assert "leave out --group" in refused.err
    wrong = await shell.braid("consume", "logs", "--filter", "level=error")
    assert wrong.code != 0
    assert "--filter" in wrong.err
