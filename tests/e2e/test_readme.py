"""The README is true: every command and snippet in it runs, in order, as a new user would run them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ENDPOINT = "127.0.0.1:7401"


def blocks(language: str) -> list[str]:
    """The README's snippets in a language, in order."""
    return [body for name, body in _BLOCK.findall((ROOT / "README.md").read_text()) if name == language]


def run(command: list[str], directory: Path, timeout_seconds: float) -> str:
    """Runs a command with this environment's `braid` first on the path; returns what it printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where the new user stands; whatever runs there afterwards is ended."""
    yield tmp_path
    if (tmp_path / ".braid").exists():
        subprocess.run(
            [str(Path(sys.executable).parent / "braid"), "dev", "down", "--dir", str(tmp_path / ".braid")],
            capture_output=True,
            check=False,
            timeout=60,
        )


def test_first_stream_in_five_minutes(directory: Path) -> None:
    first, last = blocks("bash")
    (snippet,) = blocks("python")

    said = run(["bash", "-euo", "pipefail", "-c", first], directory, 150)
    endpoint = json.loads((directory / ".braid" / "ready.json").read_text())["endpoint"]
    printed = run([sys.executable, "-c", snippet.replace(_ENDPOINT, endpoint)], directory, 60)
    run(["bash", "-euo", "pipefail", "-c", last], directory, 60)

    assert "hello" in said
    assert "DOWN" in said or "SUSPECT" in said or "HEALTHY" in said
    assert re.search(r"^live west 0 b'hello'$", printed, re.MULTILINE), printed


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    promised = re.findall(r"^make (\w+) +#", (ROOT / "README.md").read_text(), re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert promised == ["demo", "test"]
    assert set(promised) <= set(targets)


def test_every_file_the_readme_points_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
