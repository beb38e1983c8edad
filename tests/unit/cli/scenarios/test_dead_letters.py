"""`get` and `describe` of dead letters and replays, and `dlq`: what is shown, and what is asked of the service."""

import asyncio
import json

import pytest

from braid.api.dlq.v1 import dead_letter_pb2, replay_pb2
from braid.cli.core.output import Format
from braid.cli.core.terminal import Terminal
from braid.cli.core.text import byte_lines, printable
from braid.cli.dlq.replay_jobs import follow_replay
from braid.cli.resources.dlq.dead_letters import pointed
from braid.cli.resources.dlq.replays import progress_text
from braid.kernel.errors import Invalid
from tests.unit.cli.mesh import Result, Shell, TerminalText, virtual


def letter(offset: int, **fields: object) -> dead_letter_pb2.DeadLetterContent:
    """A dead letter of the stream `logs`."""
    made = dead_letter_pb2.DeadLetter(
        name=f"logs/1/0/{offset}",
        stream="logs",
        cluster="east",
        topic="braid.logs.dlq.1",
        offset=offset,
        origin=dead_letter_pb2.DeadLetterOrigin(
            lane="live", cluster="west", topic="braid.logs.live.2", partition=3, offset=70, id="01P:7"
        ),
        group="indexer",
        state=dead_letter_pb2.DEAD_LETTER_STATE_PARKED,
        attempts=5,
        error_class="ValueError",
        error_message="no number: 'x'",
        value_bytes=5,
    )
    content = dead_letter_pb2.DeadLetterContent(
        letter=made, key=b"host-1", value=b"hello", traceback="Traceback:\n  File\nValueError: no number"
    )
    content.headers.add(name="k", value=b"v")
    content.headers.add(name="braid-dl-group", value=b"indexer")
    for name, value in fields.items():
        setattr(content if name in ("key", "value", "traceback") else made, name, value)
        content.letter.CopyFrom(made)
    return content


async def with_letters(*contents: dead_letter_pb2.DeadLetterContent) -> Shell:
    """A mesh with a stream `logs`, and a dlq that knows some dead letters."""
    shell = await Shell().start("east")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
    await shell.replica("dlq-0")
    await asyncio.sleep(1.0)  # until every directory has it
    shell.dlq.contents = list(contents)
    return shell


@virtual
async def test_tables_are_golden() -> None:
    shell = await with_letters(letter(9), letter(8, quarantine="decompression bomb", error_class=""))
    assert await shell.braid("get", "deadletters") == Result(
        0,
        "NAME        GROUP    LANE  STATE   ERROR               MESSAGE         TRIES  AGE\n"
        "logs/1/0/9  indexer  live  PARKED  ValueError          no number: 'x'  5      -\n"
        "logs/1/0/8  indexer  live  PARKED  decompression bomb  no number: 'x'  5      -\n",
        "",
    )
    assert (await shell.braid("get", "deadletter", "logs/1/0/8", "-o", "name")).out == "deadletter/logs/1/0/8\n"
    wide = (await shell.braid("get", "deadletters", "logs", "-o", "wide")).out
    assert "west:braid.logs.live.2/3/70" in wide
    assert await shell.braid("get", "deadletters", "metrics") == Result(
        0, "", "braid: there are no dead letters that match\n"
    )


@virtual
async def test_letters_are_listed_with_states_and_counted_by_state() -> None:
    pb = dead_letter_pb2
    states = (pb.DEAD_LETTER_STATE_REPLAYED, pb.DEAD_LETTER_STATE_PARKED_AGAIN, pb.DEAD_LETTER_STATE_HANDLED)
    shell = await with_letters(*(letter(9 - at, state=state) for at, state in enumerate(states)), letter(1))
    listed = await shell.braid("get", "deadletters")
    assert [line.split()[3:5] for line in listed.out.splitlines()[1:3]] == [
        ["REPLAYED", "ValueError"],
        ["PARKED", "AGAIN"],
    ]
    assert listed.err == "braid: of those shown: 1 handled, 1 parked, 1 parked again, 1 replayed\n"
    told = (await shell.braid("describe", "deadletter", "logs/1/0/8")).out
    assert told.startswith("name:             logs/1/0/8\nstate:            parked again\n")
    handled = await shell.braid("get", "deadletter", "logs/1/0/7", "-o", "json")
    assert json.loads(handled.out)["state"] == "handled"


@virtual
async def test_the_newest_are_shown_and_the_rest_counted() -> None:
    shell = await with_letters(*(letter(offset) for offset in range(2_500, 0, -1)))
    some = await shell.braid("get", "deadletters", "--max", "3")
    assert len(some.out.splitlines()) == 4
    assert some.err == "braid: the newest 3 of 2,500; --max 0 shows all, --where chooses\n"
    every = await shell.braid("get", "deadletters", "--max", "0", "-o", "json")
    assert len(json.loads(every.out)["items"]) == 2_500
    assert every.err == ""


@virtual
async def test_an_error_message_cannot_break_a_table() -> None:
    shell = await with_letters(letter(1, error_message="first\nsecond \x1b[31mred" + " long" * 50))
    lines = (await shell.braid("get", "deadletters", terminal=True)).out.splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) <= 80
    wide = (await shell.braid("get", "deadletters", "-o", "wide")).out
    assert "first\\x0asecond \\x1b[31mred" in wide


@virtual
async def test_one_in_full() -> None:
    shell = await with_letters(letter(9))
    shell.dlq.contents[0].letter.replayed_by.append("01R")
    told = (await shell.braid("describe", "deadletter", "logs/1/0/9")).out
    assert told == (
        "name:             logs/1/0/9\n"
        "state:            parked\n"
        "error:            ValueError: no number: 'x'\n"
        "group:            indexer\n"
        "attempts:         5\n"
        "replayed:         since by 01R\n"
        "record id:        01P:7\n"
        "it was at:        live west:braid.logs.live.2/3/70\n"
        "its copy is at:   east:braid.logs.dlq.1/0/9\n"
        "\n"
        "Headers:\n"
        "  k: v\n"
        "\n"
        "Key (6 bytes):\n"
        "  host-1\n"
        "\n"
        "Value (5 bytes):\n"
        "  hello\n"
        "\n"
        "Traceback:\n"
        "  Traceback:\n"
        "    File\n"
        "  ValueError: no number\n"
        "\n"
        "Replay it:  braid dlq replay --stream logs --where 'id=01P:7' --dry-run\n"
    )
    missing = await shell.braid("describe", "deadletter", "logs/1/0/1")
    assert (missing.code, missing.out) == (4, "")
    assert "its topic keeps 24 h" in missing.err


@virtual
async def test_binary_values_are_dumped_and_large_ones_cut() -> None:
    shell = await with_letters(letter(9, value=bytes(range(32)), value_bytes=99, key=b"\x00\xff"))
    told = (await shell.braid("describe", "deadletter", "logs/1/0/9")).out
    assert "Value (the first 32 of 99 bytes):\n  00000000  00 01 02" in told
    assert "Key (2 bytes):\n  00000000  00 ff" in told
    document = json.loads((await shell.braid("describe", "deadletter", "logs/1/0/9", "-o", "json")).out)
    assert document["key"] == {"base64": "AP8="}
    assert document["headers"] == [
        {"name": "k", "value": "v"},
        {"name": "braid-dl-group", "value": "indexer"},
    ]


def test_bytes_as_lines() -> None:
    assert byte_lines(b"one\ntwo\x1b[0m", 100) == ["one", "two\\x1b[0m"]
    assert byte_lines("grüße".encode()[:4], 3) == ["gr"]  # cut within a character
    assert byte_lines(b"\xff\xfe", 100) == ["00000000  ff fe                                            .."]
    assert byte_lines(b"", 100) == []
    assert printable("a\u2028b\U000e0001") == "a\\u2028b\\U000e0001"


@virtual
async def test_a_wrong_filter_is_pointed_at() -> None:
    shell = await with_letters(letter(9))
    told = Invalid("expected a value", field="spec.filter", metadata={"column": "7"})
    shell.dlq.filter_error = told
    for line in (
        "get deadletters --stream logs --where error=",
        "dlq replay --stream logs --where error=",
    ):
        result = await shell.braid(*line.split())
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("braid: --where: expected a value\n  error=\n        ^\n  try: ")


def test_a_caret_that_is_there_is_not_drawn_again() -> None:
    error = Invalid("expected a value\n  error=\n        ^", field="spec.filter", metadata={"column": "7"})
    assert pointed(error, "error=").message == error.message
    other = Invalid("too fast", field="spec.rate_per_s")
    assert pointed(other, "error=") is other


@virtual
async def test_a_replay_is_made_and_watched_and_ended() -> None:
    shell = await with_letters(letter(9), letter(8))
    made = await shell.braid(
        *("dlq", "replay", "--stream", "logs", "--where", "error=ValueError", "--rate", "50", "--to", "repaired/live")
    )
    assert made == Result(
        0, "replay/01REPLAY0 created for 2 dead letters; watch it: braid get replays 01REPLAY0 -w\n", ""
    )
    spec = shell.dlq.created[0].spec
    assert (spec.filter, spec.rate_per_s, spec.destination, spec.broadcast) == (
        *("error=ValueError", 50.0, "repaired/live", False),
    )
    table = (await shell.braid("get", "replays")).out.splitlines()
    assert table[0].split() == ["NAME", "STREAM", "STATE", "SENT", "FILTER", "AGE"]
    assert table[1].split()[:5] == ["01REPLAY0", "logs", "RUNNING", "0/2", "error=ValueError"]
    assert (await shell.braid("dlq", "pause", "01REPLAY0")).out == (
        "replay/01REPLAY0 paused (0 of 2 sent); watch it: braid get replays 01REPLAY0 -w\n"
    )
    told = (await shell.braid("describe", "replay", "replay/01REPLAY0")).out
    assert "state:      PAUSED" in told
    assert "braid dlq resume 01REPLAY0" in told
    assert (await shell.braid("dlq", "resume", "01REPLAY0")).code == 0
    assert (await shell.braid("dlq", "cancel", "01REPLAY0")).out == "replay/01REPLAY0 cancelled (0 of 2 sent)\n"
    over = await shell.braid("dlq", "pause", "01REPLAY0")
    assert (over.code, "create another" in over.err) == (4, True)


@virtual
async def test_a_dry_run_counts_and_shows_some() -> None:
    shell = await with_letters(letter(9), letter(8), letter(7))
    result = await shell.braid("dlq", "replay", "--stream", "logs", "--dry-run")
    lines = result.out.splitlines()
    assert lines[0] == "3 dead letters would be sent to the lane each came from (dry run: nothing was changed)"
    assert [line.split()[0] for line in lines[2:]] == ["NAME", "logs/1/0/9", "logs/1/0/8"]
    shell.dlq.contents = [letter(9, error_message="a long story " * 20)]
    assert "a long story " * 19 in (await shell.braid("dlq", "replay", "--stream", "logs", "--dry-run")).out
    assert shell.dlq.replays == {}


def advancing(shell: Shell, state: "replay_pb2.ReplayState.ValueType" = replay_pb2.REPLAY_STATE_DONE) -> None:
    """Each look finds one more record sent; when all are, the replay is over."""

    def look(replay: replay_pb2.Replay) -> None:
        replay.status.sent += 1
        if replay.status.sent == replay.status.matched:
            replay.status.state = state

    shell.dlq.on_look = look


@virtual
async def test_waiting_prints_lines() -> None:
    shell = await with_letters(letter(9), letter(8))
    advancing(shell)
    result = await shell.braid("dlq", "replay", "--stream", "logs", "--wait")
    assert result == Result(
        0,
        "replay/01REPLAY0 created for 2 dead letters\n"
        f"{'░' * 30}   0%  0 of 2 sent, 0/s\n"
        f"{'█' * 15}{'░' * 15}  50%  1 of 2 sent, 0/s\n"
        "replay/01REPLAY0 done (2 of 2 sent)\n",
        "",
    )
    advancing(shell, replay_pb2.REPLAY_STATE_FAILED)
    failed = await shell.braid("dlq", "replay", "--stream", "logs", "--wait", "-o", "json")
    assert (failed.code, json.loads(failed.out)["status"]["state"]) == (4, "running")


@virtual
async def test_waiting_shows_a_bar_on_a_terminal() -> None:
    shell = await with_letters(letter(9), letter(8))
    advancing(shell)
    await shell.braid("dlq", "replay", "--stream", "logs")
    out, err = TerminalText(), TerminalText()
    async with shell.session(Terminal(out, err, {})) as session:
        assert await follow_replay(session, shell.dlq.replays["01REPLAY0"], Format.TABLE) == 0
    assert "\r\x1b[2K" + "█" * 15 in err.getvalue()
    assert out.getvalue() == "replay/01REPLAY0 done (2 of 2 sent)\n"


@virtual
async def test_who_stops_waiting_stops_nothing() -> None:
    shell = await with_letters(letter(9))
    result = await shell.braid("dlq", "replay", "--stream", "logs", "--wait", seconds=3.0)
    assert result.err == "braid: replay/01REPLAY0 continues in the background; stop it: braid dlq cancel 01REPLAY0\n"


@virtual
async def test_waiting_outlives_the_service() -> None:
    shell = await with_letters(letter(9))

    async def later() -> None:
        await asyncio.sleep(2.0)
        shell.kill("dlq-0")
        await asyncio.sleep(8.0)
        advancing(shell)
        await shell.replica("dlq-1")

    changing = asyncio.ensure_future(later())
    result = await shell.braid("dlq", "replay", "--stream", "logs", "--wait", seconds=60.0)
    await changing
    assert result.out.endswith("replay/01REPLAY0 done (1 of 1 sent)\n")


def test_progress_of_nothing() -> None:
    assert progress_text(replay_pb2.ReplayStatus()) == f"{'░' * 30}   0%  0 of 0 sent, 0/s UNSPECIFIED"
    counted = replay_pb2.ReplayStatus(state=replay_pb2.REPLAY_STATE_RUNNING, matched=4, sent=1, skipped=2, repeated=1)
    assert progress_text(counted).endswith("  75%  1 of 4 sent, 2 skipped, 1 repeated, 0/s")


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("dlq replay --stream lgos", 4, "--stream: there is no stream lgos\n  try: did you mean logs?"),
        ("dlq replay", 2, "--stream"),
        ("dlq replay --stream logs --rate -1", 2, "--rate"),
        ("dlq replay --stream logs --to other --broadcast", 2, "leave out one of both"),
        ("dlq pause 01REPLAY", 4, "did you mean 01REPLAY0?"),
        ("dlq cancel xyz", 4, "braid get replays"),
        ("describe replay 01REPLAYO", 4, "did you mean 01REPLAY0?"),
        ("get replay xyz", 4, "there is no replay xyz"),
        ("get streams --where error=x", 2, "it goes with deadletters"),
        ("get streams --max 3", 2, "it goes with deadletters"),
        ("dlq nonsense", 2, "nonsense"),
    ],
)
def test_bad_input(line: str, code: int, told: str) -> None:
    @virtual
    async def scenario() -> None:
        shell = await with_letters(letter(9))
        await shell.braid("dlq", "replay", "--stream", "logs")
        result = await shell.braid(*line.split())
        assert (result.code, result.out) == (code, "")
        assert told in result.err

    scenario()


@virtual
async def test_watching_prints_new_letters_and_no_letter_as_gone() -> None:
    shell = await with_letters(letter(9))

    async def later() -> None:
        await asyncio.sleep(1.5)
        shell.dlq.contents = [letter(10)]

    changing = asyncio.ensure_future(later())
    result = await shell.braid("get", "deadletters", "-w", seconds=4.0)
    await changing
    assert [line.split()[0] for line in result.out.splitlines()] == ["NAME", "logs/1/0/9", "logs/1/0/10"]
