"""The ledger keeps what comes through its pipe, synced, and trusts none of our code."""

import ast
import os
import queue
import subprocess
import sys
from pathlib import Path

import pytest

from demo.proof import ledger


def test_it_imports_nothing_but_the_standard_library() -> None:
    tree = ast.parse(Path(ledger.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_a_process_without_site_packages_keeps_every_line(tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe", tmp_path / "ledger.txt"
    os.mkfifo(pipe)
    command = [sys.executable, "-I", "-S", ledger.__file__, str(pipe), str(file)]
    lines = b"".join(b"p:%d east live %d log %08x\n" % (number, number, number) for number in range(20_000))
    with subprocess.Popen(command) as process:
        with pipe.open("wb") as writer:
            writer.write(lines)
        assert process.wait(20) == 0
    assert file.read_bytes() == lines


def test_everything_is_synced_before_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: sizes.append(os.fstat(descriptor).st_size))
    waiting: queue.Queue[bytes] = queue.Queue()
    for chunk in (b"a\n", b"b\n", b""):
        waiting.put(chunk)
    ledger.keep(waiting, tmp_path / "ledger.txt")
    assert sizes == [4]
