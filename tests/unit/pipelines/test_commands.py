"""Arguments, times, exit codes, and what is made of Spark's accounts of failures. No Spark runs here."""

import json
import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from braid.kernel.errors import Fenced, Invalid, NotFound, OffsetOutOfRange, Refused, Unavailable
from pipelines import commands, event_store, reprocess
from pipelines.session import package_path
from pipelines.table.writer import TableWriter
from tests.support.table_rows import PRODUCERS, Copy, merge

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
ARGUMENTS = ("--endpoint", "127.0.0.1:1", "--stream", "logs")


def made_table(path: Path, rows: int = 5) -> None:
    writer = TableWriter.open(path, stream="logs", table_format="parquet", clock_ms=lambda: 0)
    merge(writer, [Copy(PRODUCERS[0], sequence, sequence) for sequence in range(rows)])
    merge(writer, [Copy(PRODUCERS[0], 0, 99)])


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW - timedelta(hours=2)),
        ("2026-11-22T11:30:00Z", NOW - timedelta(minutes=30)),
        ("2026-11-22T12:30:00+01:00", NOW - timedelta(minutes=30)),
        ("1795348800000", NOW),
    ],
)
def test_a_time_is_read(text: str, moment: datetime) -> None:
    assert commands.parse_time(text, NOW, "--from") == moment


@pytest.mark.parametrize("text", ["yesterday", "2026-11-22T12:00:00", "", "12", "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        commands.parse_time(text, NOW, "--from")
    assert refused.value.field == "--from"
    assert refused.value.remedy


def test_an_error_of_ours_is_found_in_what_spark_says_of_it() -> None:
    account = (
        "[STREAM_FAILED] Query terminated\nTraceback (most recent call last):\n  File x, line 1\n"
        "braid.kernel.errors.NotFound: stream: there is no stream 'x' (list them)\n\tat java.lang.Thread"
    )
    found = commands.raised_in_spark(account)
    assert isinstance(found, NotFound)
    assert "no stream 'x'" in found.message


@pytest.mark.parametrize("account", ["", "java.lang.OutOfMemoryError", "braid.kernel.errors.Mapping: x"])
def test_a_failure_of_sparks_own_is_no_error_of_ours(account: str) -> None:
    assert commands.raised_in_spark(account) is None


def test_the_line_that_says_what_happened_is_found() -> None:
    account = "An error occurred\n  Traceback\nValueError: the first\n  again\nOSError: the last\n\tat org.apache"
    assert commands.summary_of(account) == "OSError: the last"
    account = "An error occurred while calling o1.save.\n: org.apache.Exception: a\n\tat x\nCaused by: java.IOException"
    assert commands.summary_of(account) == "java.IOException"
    assert commands.summary_of("only this\nand that") == "only this"
    assert commands.summary_of("") == "no reason given"


@pytest.mark.parametrize(
    ("error", "code"), [(Invalid("x"), 2), (Unavailable("x"), 3), (NotFound("x"), 4), (Fenced("x"), 4)]
)
def test_exit_codes_are_the_commands(error: Refused, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    def job(stop: threading.Event) -> None:
        raise error

    assert commands.run("job", job) == code
    assert capsys.readouterr().err == "job: x\n"


def test_a_signal_tells_the_job_to_stop() -> None:
    def job(stop: threading.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)

    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        assert commands.run("job", job) == 0
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--stream", "logs"), "--checkpoint"),
        (("--stream", "logs", "--checkpoint", "c"), "--endpoint"),
        ((*ARGUMENTS, "--checkpoint", "c"), "--group"),
        ((*ARGUMENTS, "--checkpoint", "c", "--group", "Big"), "--group"),
        ((*ARGUMENTS, "--checkpoint", "c", "--group", "g", "--max-rows", "0"), "--max-rows"),
        ((*ARGUMENTS, "--checkpoint", "table", "--group", "g"), "--checkpoint"),
    ],
)
def test_an_impossible_event_store_is_refused_before_spark_runs(
    arguments: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BRAID_ENDPOINT", raising=False)
    assert event_store.main(["--table", "table", *arguments]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert "try: " in said


def test_another_streams_table_is_refused_before_spark_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_table(tmp_path / "t")
    arguments = ["--endpoint", "127.0.0.1:1", "--stream", "other", "--table", str(tmp_path / "t")]
    assert reprocess.main([*arguments, "--from", "2h"]) == 2
    assert "holds the stream 'logs', not 'other'" in capsys.readouterr().err
    assert event_store.main([*arguments, "--group", "g", "--checkpoint", str(tmp_path / "c")]) == 2
    assert "holds the stream 'logs', not 'other'" in capsys.readouterr().err


def test_an_unreadable_range_is_refused_before_spark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert reprocess.main([*ARGUMENTS, "--table", "t", "--from", "noon"]) == 2
    assert "--from: 'noon' is not a time" in capsys.readouterr().err


def test_a_table_is_counted_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_table(tmp_path / "t")
    assert event_store.main(["--table", str(tmp_path / "t"), "--check"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert {name: facts[name] for name in ("rows", "read", "repeats", "wrong")} == {
        "rows": 5, "read": 5, "repeats": 1, "wrong": 0
    }  # fmt: skip


def test_counting_what_is_no_table_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert event_store.main(["--table", str(tmp_path), "--count"]) == 4
    assert "holds no table" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["pipelines.event_store", "pipelines.reprocess"])
def test_help_begins_with_examples(module: str) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-m", module, "--help"], cwd=root, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0
    assert "--stream logs" in done.stdout.split("options:")[0]


def test_workers_find_the_package_beside_what_was_inherited() -> None:
    root = str(Path(__file__).parents[3])
    assert package_path("").split(os.pathsep) == [root]
    assert package_path(f"/x{os.pathsep}{root}").split(os.pathsep) == [root, "/x"]


def test_lost_records_end_the_job_and_an_argument_lets_it_go_on() -> None:
    given = event_store.arguments().parse_args([*ARGUMENTS, "--table", "t"])
    assert given.skip_lost is False
    failure = "braid.kernel.errors.OffsetOutOfRange: failOnDataLoss: offsets 5 to 9 are lost (set failOnDataLoss …)\n"
    with pytest.raises(OffsetOutOfRange, match="offsets 5 to 9 are lost") as raised:
        event_store.EventStoreJob(given, None)._judge(failure, 1)  # type: ignore[arg-type]  # no Spark is needed to judge
    assert (raised.value.field, "--skip-lost" in raised.value.remedy) == ("--skip-lost", True)
