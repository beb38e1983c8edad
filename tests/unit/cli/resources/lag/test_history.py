"""`get lag --since`: tables over time, documents, and what makes them doubtful."""

import json

import pytest

from braid.api.lagmon.v1 import lag_history_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.cli.resources.lag.history import step_state
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.resources.lag.test_listing import lag, with_lagmon

MINUTE_MS = 60_000


def step(time_ms: int, **fields: object) -> lag_history_pb2.LagStep:
    """A row of a history."""
    known: dict[str, object] = {"max_lag_seconds": 3.25, "lag_seconds": 1.5, "lag_records": 12_345, **fields}
    return lag_history_pb2.LagStep(time_ms=time_ms, **known)  # type: ignore[arg-type]


async def with_history(*steps: lag_history_pb2.LagStep, **fields: object) -> Shell:
    """A mesh whose lagmon kept rows of one lane, the times counted from a minute an hour ago."""
    shell = await with_lagmon()
    base = _base_ms(shell)
    moved = [_moved(each, base) for each in steps]
    history = lag_history_pb2.LagHistory(group="indexer", stream="logs", lane="live", steps=moved)
    shell.lagmon.history = api.ListLagHistoryResponse(
        histories=[history] if steps else [],
        kept_since_ms=base,
        **fields,  # type: ignore[arg-type]
    )
    return shell


def _base_ms(shell: Shell) -> int:
    now_ms = shell.me.host.clock.now_ms()
    return now_ms - now_ms % MINUTE_MS - 60 * MINUTE_MS


def _moved(each: lag_history_pb2.LagStep, base_ms: int) -> lag_history_pb2.LagStep:
    moved = lag_history_pb2.LagStep()
    moved.CopyFrom(each)
    moved.time_ms += base_ms
    return moved


def stale(time_ms: int) -> lag_history_pb2.LagStep:
    """A row in which nothing was known."""
    return lag_history_pb2.LagStep(time_ms=time_ms, stale=True)


@virtual
async def test_rows_say_what_was_known_and_where_some_miss() -> None:
    shell = await with_history(
        step(0, produced_per_s=1200.04, done_per_s=-3.0, known_seconds=60.0),
        stale(MINUTE_MS),
        step(20 * MINUTE_MS, unattended=True, clock_stepped=True),
    )
    result = await shell.braid("get", "lag", "indexer", "--since", "2h", "--step", "1m")
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[0] == ["NAME", "TIME", "SECONDS", "RECORDS", "IN/S", "DONE/S", "STATE", "AGE"]
    assert lines[1][-6:-1] == ["3.2", "12,345", "1,200.0", "-3.0", "OK"]
    assert lines[2][-6:-1] == ["-", "-", "-", "-", "STALE"]
    assert " ".join(lines[3][3:-1]) == "3.2 12,345 - - after a gap of 18m,clock stepped,NO MEMBER"
    assert "lag has been kept since" in result.err
    asked = shell.lagmon.history_asked[-1]
    assert (asked.filter.group, asked.step_ms) == ("indexer", 60_000)
    assert asked.until_ms - asked.since_ms == pytest.approx(7_200_000, abs=2_000)


@virtual
async def test_wide_rows_show_the_smallest_lag_where_it_was_kept() -> None:
    shell = await with_history(step(0, min_lag_seconds=0.25, known_seconds=60.0), step(MINUTE_MS, known_seconds=60.0))
    result = await shell.braid("get", "lag", "indexer", "--since", "2h", "-o", "wide")
    lines = [line.split() for line in result.out.splitlines()]
    assert lines[0][-4:-1] == ["SMALLEST", "LAST", "KNOWN"]
    assert lines[1][-4:-1] == ["0.2", "1.5", "60"]
    assert lines[2][-4:-1] == ["-", "1.5", "60"]


@virtual
async def test_a_day_fits_a_screen_unless_told_otherwise() -> None:
    shell = await with_history(step(0))
    for since, expected_ms in (("2m", 10_000), ("2h", 300_000), ("24h", 3_600_000), ("30d", 86_400_000)):
        await shell.braid("get", "lag", "--since", since)
        assert shell.lagmon.history_asked[-1].step_ms == expected_ms, since


@virtual
async def test_documents_hold_every_field_that_is_known() -> None:
    shell = await with_history(step(0, produced_per_s=2.0), stale(MINUTE_MS))
    items = json.loads((await shell.braid("get", "lag", "--since", "2h", "-o", "json")).out)["items"]
    assert [item["kind"] for item in items] == ["LagStep"] * 2
    assert (items[0]["group"], items[0]["stream"], items[0]["lane"]) == ("indexer", "logs", "live")
    assert (items[0]["produced_per_s"], items[0]["lag_records"]) == (2.0, 12_345)
    assert "lag_records" not in items[1]
    assert items[1]["stale"] is True


@virtual
async def test_damage_and_a_disk_that_is_full_are_said() -> None:
    trouble = "lag is kept in memory only: No space left on device"
    shell = await with_history(step(0), damaged=2, trouble=trouble, silent=["lagmon-1"])
    result = await shell.braid("get", "lag", "--since", "10m")
    assert "2 files are damaged" in result.err
    assert "lagmon-1 did not answer: rows that only they keep are missing" in result.err
    assert trouble in result.err


@virtual
async def test_a_group_without_a_past_is_an_error_with_a_remedy() -> None:
    shell = await with_history()
    result = await shell.braid("get", "lag", "nobody", "--since", "10m")
    assert result.code == 4
    assert "list those that have: braid get lag --since 2h" in result.err
    assert (await shell.braid("get", "lag", "--since", "10m")).code == 0


REFUSED = (
    ("get lag --step 5m", "add --since 2h"),
    ("get lag --since 2h -w", "leave it out"),
    ("get lag --since 2h --detail partition", "leave it out"),
    ("get lag --since soon", "10m (ago)"),
    ("get lag --since 2h --step soon", "30m"),
    ("get lag --since 2999-01-01", "2h (ago)"),
    ("get streams --since 2h", "it goes with lag"),
)


@virtual
async def test_flags_that_do_not_go_together_are_refused() -> None:
    shell = await with_history(step(0))
    for line, hint in REFUSED:
        result = await shell.braid(*line.split())
        assert result.code == 2, line
        assert hint in result.err, line


@virtual
async def test_wide_rows_of_lanes_have_a_trend_and_an_end() -> None:
    shell = await with_lagmon(
        lag("a", "logs", "live", lag_records=90, trend_per_s=-12.34, seconds_to_zero=130.0),
        lag("b", "logs", "live", lag_records=90, trend_per_s=4.0),
        lag("c", "logs", "live"),
    )
    lines = [line.split() for line in (await shell.braid("get", "lag", "-o", "wide")).out.splitlines()]
    assert lines[0][-4:] == ["TREND", "TO", "ZERO", "COMMIT"]
    assert [line[-3:-1] for line in lines[1:]] == [["-12.3/s", "2m10s"], ["+4.0/s", "-"], ["-", "-"]]


def test_an_ordinary_row_is_ok() -> None:
    assert step_state(step(MINUTE_MS), step(0), MINUTE_MS) == "OK"
    assert step_state(step(MINUTE_MS, estimated=True), None, MINUTE_MS) == "estimate"
