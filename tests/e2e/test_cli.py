"""The command line as its users meet it: real processes, a real mesh, pipes, signals, exit codes.

Commands that only say something are forks of a loaded one (`tests.support.preloaded`).
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

import braid as braid_sdk
from devmesh.documents import ready_from_json
from devmesh.mesh import DevMesh
from testbed import patience
from testbed.mesh import running_mesh
from testbed.prometheus.binaries import prometheus_binaries
from tests.support.alert_receivers import AlertReceivers, alert_receivers
from tests.support.planted import checked
from tests.support.preloaded import preloaded

BRAID: Final = (sys.executable, "-c", "from braid.cli import main; main()")
COMMAND_SECONDS: Final = 60.0  # as the machine gives them
ASK_AGAIN_SECONDS: Final = 0.2
LOADED: Final = Path("loaded", "bin", "braid")
HANG_SECONDS: Final = 300.0  # by the wall: it ends what hangs, and judges nothing
Row: TypeAlias = dict[str, Any]  # of a JSON list, whose fields differ by type

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module")
def receivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertReceivers]:
    """A webhook and an Alertmanager that the mesh sends alerts to."""
    with alert_receivers(tmp_path_factory.mktemp("receivers")) as found:
        yield found


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory, receivers: AlertReceivers) -> Iterator[Path]:
    """A directory in which a mesh runs, and a stream `logs`; commands run there find it by themselves."""
    directory = tmp_path_factory.mktemp("cli")
    (directory / "loaded").mkdir()
    with pytest.MonkeyPatch.context() as environment, preloaded(directory / "loaded"):
        environment.setenv("BRAID_ALERT_OUTLETS", receivers.settings)  # services inherit it
        with running_mesh(directory / ".braid", lagmons=1, dlqs=1, secure=True):
            made = braid(directory, "create stream logs --lane live=4 --lane bulk=4")
            assert (made.returncode, made.stderr) == (0, "")
            yield directory


def braid(directory: Path, line: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command line to its end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
    environment["XDG_CONFIG_HOME"] = str(directory)
    done = subprocess.run(
        [directory / LOADED, *line.split()],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment,
        timeout=HANG_SECONDS,
    )
    return checked(done, f"the output of braid {line}")


def printed(directory: Path, line: str, stdin: str = "") -> str:
    """The output of a command, which must succeed."""
    done = braid(directory, line, stdin)
    assert (done.returncode, done.stderr) == (0, ""), f"braid {line}: {done}"
    return done.stdout


def test_a_newcomers_first_commands(where: Path) -> None:
    told = printed(where, "produce logs --key-delimiter :", "host-1:hello\nhost-2:world\n")
    assert told.startswith("stream/logs 2 records acknowledged in ")
    assert sorted(printed(where, "consume logs --from earliest --max 2").split()) == ["hello", "world"]
    assert "logs  bulk=4,live=4" in printed(where, "get streams")
    assert printed(where, "get clusters -o name") == "cluster/east\ncluster/west\n"
    assert printed(where, "doctor").splitlines()[0].split() == ["NAME", "RESULT", "DETAIL"]


def test_a_group_works_through_the_command_line(where: Path) -> None:
    lines = "".join(f"{number}\n" for number in range(5_000))
    assert " 5000 records acknowledged" in printed(where, "produce logs --lane bulk", lines)
    first = printed(where, "consume logs --lane bulk --group indexer --max 2000").split()
    rest = printed(where, "consume logs --lane bulk --group indexer --max 3000").split()
    assert sorted(map(int, first + rest)) == list(range(5_000))
    assert json.loads(printed(where, "get group indexer -o json"))["status"]["members"] == 0
    assert "Granted to" in printed(where, "why lease logs/bulk/1/0")


def test_a_move_and_back(where: Path) -> None:
    carrying = json.loads(printed(where, "get channels logs/live -o json"))["items"]
    here = next(each["cluster"] for each in carrying if each["state"] == "active")
    there = {"east": "west", "west": "east"}[here]
    assert printed(where, f"move stream logs --to {there} --lane live").startswith("stream/logs moved\n  live: ")
    told = printed(where, "produce logs", "after the move\n")
    assert f"live on {there} 1" in told
    patience.wait(lambda: "after the move" in printed(where, "consume logs --lane live --timeout 3"), "the record read")
    assert "TrafficMoved" in printed(where, "events --for stream/logs")


def test_manifests(where: Path, tmp_path: Path) -> None:
    assert printed(where, "apply -f -", printed(where, "get stream logs -o yaml")) == "stream/logs unchanged\n"
    text = printed(where, "get stream logs -o yaml").replace("failover: automatic", "failover: propose")
    (tmp_path / "logs.yaml").write_text(text)
    different = braid(where, f"diff -f {tmp_path / 'logs.yaml'}")
    assert (different.returncode, different.stderr) == (1, "")
    assert "+failover: propose" in different.stdout


def test_a_dead_letter_is_shown_replayed_and_done(where: Path) -> None:
    assert printed(where, "create stream numbers --lane live=2").startswith("stream/numbers created")
    printed(where, "produce numbers", "1\ntwo\n3\n")
    assert asyncio.run(added(where, {}, handled=3)) == [1, 3]
    (letter,) = until(where, "get deadletters --stream numbers -o json", lambda letters: len(letters) == 1)
    assert (letter["error_class"], letter["group"]) == ("ValueError", "adder")
    told = printed(where, f"describe deadletter {letter['name']}")
    assert "Value (3 bytes):\n  two\n" in told
    assert "ValueError: invalid literal for int()" in told

    assert printed(where, "dlq replay --stream numbers --where group=adder --dry-run").startswith("1 dead letter would")
    told = printed(where, "dlq replay --stream numbers --where error=ValueError --wait")
    assert told.endswith(" done (1 of 1 sent)\n")
    (replay,) = json.loads(printed(where, "get replays --stream numbers -o json"))["items"]
    assert (replay["status"]["state"], replay["status"]["sent"]) == ("done", 1)
    assert "ReplayFinished" in printed(where, f"events --for replay/{replay['id']}")
    assert until(
        where, "get lag adder --stream numbers -o json", lambda rows: [each["lag_records"] for each in rows] == [1]
    )
    assert asyncio.run(added(where, {b"two": 2}, handled=1)) == [2]


async def added(where: Path, words: Mapping[bytes, int], handled: int) -> list[int]:
    """Runs a handler that knows some words over records until lagmon reports no lag; returns its sums."""
    found: list[int] = []
    calls: list[bytes] = []

    async def handle(record: braid_sdk.Record) -> None:
        value = record.value or b""
        calls.append(value)
        found.append(words.get(value) or int(value))

    def no_lag() -> list[Row]:
        line = "get lag adder --stream numbers -o json"
        return until(where, line, lambda rows: [each["lag_records"] for each in rows] == [0])

    ready = ready_from_json((where / ".braid" / "ready.json").read_text())
    async with braid_sdk.connect(ready.endpoint, client_id="adder", tls=ready.user_tls) as mesh:
        retry = braid_sdk.Retry(max_attempts=1)
        async with mesh.consumer(["numbers"], group="adder", lanes={"live": 1}, retry=retry) as consumer:
            running = asyncio.ensure_future(consumer.run(handle))
            await patience.until(lambda: len(calls) == handled, f"{handled} records handled", COMMAND_SECONDS)
            await asyncio.to_thread(no_lag)
        await running
    assert len(calls) == handled
    return sorted(found)


def until(where: Path, line: str, condition: Callable[[list[Row]], bool]) -> list[Row]:
    """Repeats a command until its listed items meet a condition; returns them."""
    deadline = patience.Deadline(COMMAND_SECONDS)
    while True:
        items: list[Row] = json.loads(printed(where, line))["items"]
        if condition(items):
            return items
        assert not deadline.passed, f"not within {deadline}: braid {line}: {items}"
        time.sleep(ASK_AGAIN_SECONDS)


def test_lag_grows_while_nobody_works(where: Path) -> None:
    printed(where, "create stream idle --lane live=1")
    printed(where, "produce idle", "1\n")
    assert printed(where, "consume idle --group sleeper --max 1") == "1\n"
    printed(where, "produce idle", "2\n")
    (row,) = until(where, "get lag sleeper -o json", lambda rows: rows[0]["lag_seconds"] > 2)
    assert (row["lag_records"], row["source"], row["stale"]) == (1, "record", False)
    with subprocess.Popen(
        [*BRAID, "get", "lag", "sleeper", "-w", "-o", "json"], stdout=subprocess.PIPE, cwd=where, text=True
    ) as watching:
        assert watching.stdout is not None
        seen = [json.loads(next(watching.stdout))["lag_seconds"] for _ in range(3)]
        watching.send_signal(signal.SIGINT)
        assert watching.wait(HANG_SECONDS) == 0
    assert seen == sorted(set(seen))


def test_an_alert_fires_is_silenced_and_resolved(where: Path, receivers: AlertReceivers) -> None:
    receivers.webhook.statuses = [0, 500, 429, 301]  # what fires first meets them all, and is told all the same
    spec = "spec: {lanes: {live: {partitions: 1}}, lag_target: {live: 1s}, availability: 90}"  # too little for a page
    manifest = f"apiVersion: braid/v1\nkind: Stream\nmetadata: {{name: watched}}\n{spec}\n"
    assert printed(where, "apply -f -", manifest) == "stream/watched created\n"
    assert "live: 1s" in printed(where, "get stream watched -o yaml")
    printed(where, "produce watched", "1\n")
    assert printed(where, "consume watched --group away --max 1") == "1\n"
    printed(where, "produce watched", "2\n")
    name = "stream/watched/group-unattended/live/away"
    until(where, "get alerts --stream watched -o json", lambda rows: [each["state"] for each in rows] == ["firing"])
    patience.wait(lambda: receivers.pages.of(group="away") == ["firing"], "Alertmanager pages", COMMAND_SECONDS)
    shown = receivers.alertmanager.alerts()
    assert ("BraidGroupUnattended", "away") in {(each["alertname"], each.get("group")) for each in shown}
    patience.wait(lambda: receivers.webhook.of(name), "the webhook is told", COMMAND_SECONDS)
    told = printed(where, f"describe alert {name}")
    assert "group away has no member for lane live; it is 1 records, " in told
    assert "braid describe group away" in told
    printed(where, f"silence {name} --for 1h --reason starting-it")
    assert f"{name}  PAGE      SILENCED" in printed(where, "get alerts")
    assert printed(where, "consume watched --group away --max 1") == "2\n"
    until(where, "get alerts --stream watched -o json", lambda rows: rows == [])
    assert "its condition does not hold any more" in printed(where, f"describe alert {name}")
    patience.wait(lambda: len(receivers.webhook.of(name)) == 3, "the webhook is told of the end", COMMAND_SECONDS)
    assert receivers.webhook.of(name) == [f"braid.alert.{each}" for each in ("fired", "silenced", "resolved")]
    assert (receivers.webhook.refused, receivers.webhook.statuses, receivers.webhook.wrong) == (3, [], [])
    patience.wait(lambda: len(receivers.pages.of(group="away")) == 2, "Alertmanager tells the end", COMMAND_SECONDS)
    assert receivers.pages.of(group="away") == ["firing", "resolved"]
    events = printed(where, "events --for alerts/mesh -o name")
    assert events
    assert "NotificationEnded" in printed(where, "events --for outlets/mesh")


def test_rules_of_alerts_are_exported(where: Path, tmp_path: Path) -> None:
    printed(where, f"alerts export --directory {tmp_path}")
    (file,) = tmp_path.iterdir()
    assert file.read_text() == printed(where, "alerts export")
    check = [str(prometheus_binaries().promtool), "check", "rules", str(file)]
    assert "SUCCESS" in subprocess.run(check, capture_output=True, text=True, timeout=HANG_SECONDS).stdout


def test_refusals_have_their_exit_codes(where: Path) -> None:
    codes = [
        braid(where, line).returncode
        for line in (
            "get streams --endpoint 127.0.0.1:1",
            "get stream lgos",
            "create stream logs --lane live=1",
            "create stream x",
            "delete stream logs",
            "describe alert stream/logs/lag-page/live/nobody",
            "nonsense",
        )
    ]
    assert codes == [3, 4, 4, 2, 2, 4, 2]


def test_pipes_and_signals(where: Path) -> None:
    with subprocess.Popen([*BRAID, "produce", "logs"], stdin=subprocess.PIPE, cwd=where) as producing:
        assert producing.stdin is not None
        producing.stdin.write(b"interrupted\n")
        producing.stdin.flush()
        with subprocess.Popen(
            [*BRAID, "consume", "logs", "--lane", "live"], stdout=subprocess.PIPE, cwd=where, text=True
        ) as consuming:
            assert consuming.stdout is not None
            assert any("interrupted" in line for line in consuming.stdout)
            consuming.send_signal(signal.SIGINT)
            assert consuming.wait(HANG_SECONDS) == 0
        producing.send_signal(signal.SIGINT)
        assert producing.wait(HANG_SECONDS) == 130
    closed = subprocess.run(
        f"{sys.executable} -c 'from braid.cli import main; main()' consume logs | head -1",
        shell=True,
        cwd=where,
        capture_output=True,
        timeout=HANG_SECONDS,
    )
    assert (closed.returncode, closed.stderr, len(closed.stdout.splitlines())) == (0, b"", 1)


def test_doctor_finds_a_dead_cluster(where: Path) -> None:
    """Last: it breaks the mesh."""
    mesh = DevMesh(where / ".braid")
    run_verb(mesh, "kill", "east")
    try:
        told = braid(where, "doctor -o json")
        assert told.returncode == 4
        failed = {each["name"] for each in json.loads(told.stdout)["findings"] if each["level"] == "fail"}
        assert "cluster/east" in failed
    finally:
        run_verb(mesh, "start", "east")


def run_verb(mesh: DevMesh, verb: str, name: str) -> None:
    """Runs a fault verb."""
    print(asyncio.run(mesh.verb(verb, name)))
