"""The first page, the table of verbs, near misses and exit codes."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from braid.cli import app
from braid.cli.errors import exit_code
from braid.kernel.errors import Invalid, NotFound, NotLeader, Unavailable


def test_the_first_page_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--help"]) == 0
    printed = capsys.readouterr().out
    assert all(f"\n  {verb} " in printed for verb in app.VERBS)


def test_help_loads_nothing_slow() -> None:
    code = (
        "import sys, braid.cli.app as app; app.run(['--help']); "
        "assert not {'typer', 'rich', 'grpc', 'aiokafka', 'google.protobuf'} & set(sys.modules), sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_command_that_asks_services_loads_no_kafka_client() -> None:
    code = (
        "import sys, braid.cli.core.session, braid.cli.resources.verbs\n"
        "import braid.cli.resources.dlq.dead_letters, braid.cli.resources.describe, braid.cli.resources.get\n"
        "from braid.client.mesh import system_ports\n"
        "import asyncio\n"
        "async def ports(): system_ports('test')\n"
        "asyncio.run(ports())\n"
        "print({'numpy', 'aiokafka', 'pyarrow', 'braid.client.producing.producer'} & sys.modules.keys())\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"


def test_nothing_typed_is_wrong_usage() -> None:
    assert app.run([]) == 2


def test_an_unknown_verb_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["dve"]) == 2
    assert "did you mean `braid dev`?" in capsys.readouterr().err


def test_a_flag_without_a_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--endpoint", "127.0.0.1:7401"]) == 2
    assert "no command follows" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["create", "set", "dlq", "drill", "certs", "store", "acls", "archive"])
def test_a_family_alone_prints_its_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([verb]) == 2
    said = capsys.readouterr()
    assert "Commands:" in said.out + said.err and "Error: " not in said.err


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert app.run(["certs", "init", f"{tmp_path}/file/certs"]) == 2
    said = capsys.readouterr().err
    assert f"braid: {tmp_path}/file/certs: Not a directory\n  try: check the path" in said


def test_an_unknown_flag_is_wrong_usage() -> None:
    assert app.run(["dev", "--nonsense"]) == 2


@pytest.mark.parametrize("verb", app.VERBS)
def test_every_verb_has_a_home_and_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert hasattr(importlib.import_module(app.VERBS[verb].module), "register")
    assert app.run([verb, "--help"]) == 0
    assert "Usage: braid" in capsys.readouterr().out


def test_who_stops_reading_the_output_sees_no_traceback() -> None:
    """`head` ends after a line; here nobody reads at all, so that nothing depends on who is first."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", "from braid.cli import main; main()", "--help"]
    ended = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_exit_codes() -> None:
    codes = [exit_code(error("why")) for error in (Invalid, Unavailable, NotFound, NotLeader)]
    assert codes == [2, 3, 4, 4]
