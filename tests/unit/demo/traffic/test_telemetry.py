"""Readings of the machine: real, distinct, each with its own time."""

import itertools
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.story import LOGS
from demo.traffic.telemetry import Logs, Machine, Observation

STAT = "7 (a (b) c) S 1 1 1 0 -1 0 11 0 13 0 17 19 0 0 20 0 3 0 100 4096 25 0 0 0 0 0 0 0 0 0 0 0 0 0 17 1 0\n"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    root = tmp_path / "proc"
    for tid in ("7", "8"):
        (root / "7" / "task" / tid).mkdir(parents=True)
        (root / "7" / "task" / tid / "stat").write_text(STAT)
    (root / "7" / "stat").write_text(STAT)
    (root / "7" / "io").write_text("rchar: 5\nwchar: 6\n")
    (root / "9").mkdir()  # a process that ended between two looks
    (root / "net").mkdir()
    (root / "interrupts").write_text("       CPU0 CPU1\n 24:  5  6  IO-APIC\nNMI:  0  1\n")
    (root / "net" / "dev").write_text("Inter-|\n face |bytes\n  lo: 1 2 3\n")
    (root / "diskstats").write_text(" 254 0 vda 10 20 30\n")
    return root


def counting() -> Iterator[int]:
    return itertools.count(1_000)


def swept(proc: Path) -> list[Observation]:
    clock = counting()
    return list(Machine([], proc, lambda: next(clock)).sweep())


def test_processes_threads_and_counters_are_told(proc: Path) -> None:
    found = [(each.kind, each.lane, each.key) for each in swept(proc) if each.kind != "log"]
    assert [*found[:2], *sorted(found[2:4]), *found[4:]] == [
        ("process", "live", b"process/7"),
        ("process-io", "live", b"process-io/7"),
        ("thread", "live", b"thread/7/7"),
        ("thread", "live", b"thread/7/8"),
        ("interrupt", "bulk", b"interrupt/interrupts/24"),
        ("interrupt", "bulk", b"interrupt/interrupts/NMI"),
        ("network", "bulk", b"network/net/dev/lo"),
        ("disk", "bulk", b"disk/diskstats/vda"),
    ]


def test_a_process_is_read_as_the_kernel_writes_it(proc: Path) -> None:
    said = json.loads(swept(proc)[0].value)
    assert said == {
        "kind": "process",
        "at_ns": 1_000,
        "pid": 7,
        "name": "a (b) c",
        "state": "S",
        "minor_faults": 11,
        "major_faults": 13,
        "user_ticks": 17,
        "system_ticks": 19,
        "threads": 3,
        "virtual_bytes": 4096,
        "resident_pages": 25,
        "processor": 1,
    }


def test_each_reading_has_its_own_time(proc: Path) -> None:
    times = [json.loads(each.value)["at_ns"] for each in swept(proc) if each.lane == "live"]
    assert times == sorted(set(times))


def test_this_machine_gives_distinct_readings_sweep_after_sweep() -> None:
    machine = Machine([])
    running = threading.Event()
    thread = threading.Thread(target=running.wait)
    thread.start()
    try:
        first, second = ([each for each in machine.sweep() if each.kind != "log"] for _ in range(2))
    finally:
        running.set()
        thread.join()
    values = [each.value for each in (*first, *second)]
    assert len(set(values)) == len(values) > 100
    assert {"process", "thread", "cpu", "memory"} <= {each.kind for each in first}
    own = [each for each in first if each.key == f"process/{os.getpid()}".encode()]
    assert json.loads(own[0].value)["pid"] == os.getpid()


def test_logs_are_followed_as_far_as_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("".join(f"line {number}\n" for number in range(450)))
    logs = Logs([f"{tmp_path}/*.log"], [])
    assert list(itertools.islice(logs.lines(), 2)) == [(str(path), 0, "line 0"), (str(path), 7, "line 1")]
    assert [text for _, _, text in logs.lines()] == [f"line {number}" for number in range(2, 450)]
    with path.open("a") as file:
        file.write("later\n")
    assert [text for _, _, text in logs.lines()] == ["later"]


def test_the_demo_ships_processes_reports_and_not_broker_data(tmp_path: Path) -> None:
    said = ["shipper.log", "mesh/dev.log", "mesh/clusters/east/broker.log", "mesh/services/dlq-0/service.log"]
    stored = ["mesh/clusters/east/data/t.1-0/00000000000000000000.log", "mesh/store/etcd/data/member/wal/0.log"]
    for name in (*said, *stored):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a line\n")
    logs = Logs([str(tmp_path / pattern) for pattern in LOGS], [])
    assert {path for path, _, _ in logs.lines()} == {str(tmp_path / name) for name in said}


def test_spans_are_told_from_logs(tmp_path: Path, proc: Path) -> None:
    (tmp_path / "spans.jsonl").write_text('{"name": "registry/GetStream"}\n')
    kinds = {each.key.decode(): each.kind for each in Machine([f"{tmp_path}/spans.jsonl"], proc).sweep()}
    assert kinds[f"span/{tmp_path}/spans.jsonl"] == "span"
