"""Programs that stand in for tools a machine may or may not have, put alone on PATH."""

import stat
import sys
from pathlib import Path
from typing import Final

import pytest

# `go` as tests have it: in place of a binary it writes a file of the module, which `written` names.
GO_BUILD: Final = """
import pathlib
output = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
output.parent.mkdir(parents=True, exist_ok=True)
output.write_text(pathlib.Path("{written}").read_text())
"""


def write_tool(directory: Path, name: str, body: str) -> Path:
    """Writes an executable Python program.

    Args:
        directory: Where; made when missing.
        name: Its file name.
        body: Python statements; `sys` is imported.
    """
    directory.mkdir(parents=True, exist_ok=True)
    tool = directory / name
    tool.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tool


def only_on_path(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    """Makes one directory all of PATH."""
    directory.mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("PATH", str(directory))
