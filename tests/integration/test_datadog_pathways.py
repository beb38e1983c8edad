"""Datadog's own library and the SDK read each other's pathway headers, and compute the same hashes."""

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from braid.kernel.pathways.edges import Edge, point_hash
from braid.kernel.pathways.header import PATHWAY_HEADER, Context, decode_context, encode_context

pytestmark = [pytest.mark.extended, pytest.mark.untimed]

TESTS: Final = Path(__file__).resolve().parents[1]
REQUIREMENTS: Final = TESTS / "golden" / "pathways" / "datadog-requirements.txt"
NOW_MS: Final = 1_790_000_000_000


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with Datadog's library, installed by hash into an environment of its own."""
    venv = tmp_path_factory.mktemp("datadog") / "venv"
    run([sys.executable, "-m", "venv", "--without-pip", str(venv)])
    found = venv / "bin" / "python"
    install = ["install", "--quiet", "--require-hashes", "--no-deps", "-r", str(REQUIREMENTS)]
    run([sys.executable, "-m", "pip", "--python", str(found), *install])
    return found


def run(command: Sequence[str], said: str = "") -> str:
    """The output of a command that must succeed."""
    done = subprocess.run(command, input=said, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def ask(python: Path, **document: object) -> Any:
    """Returns what Datadog's library answers."""
    script = str(TESTS / "support" / "datadog_pathways.py")
    return json.loads(run([str(python), script], json.dumps(document)))


def test_datadogs_library_reads_our_headers(python: Path) -> None:
    dice = random.Random(1)
    contexts = [
        Context(dice.randrange(1, 1 << 64), NOW_MS - dice.randrange(1 << 40), NOW_MS - dice.randrange(1 << 30), shift)
        for shift in range(32)
    ]
    read = ask(python, headers=[encode_context(each).decode() for each in contexts])["read"]
    assert read == [[str(number) for number in each[:3]] for each in contexts]


def test_we_read_the_headers_of_datadogs_library(python: Path) -> None:
    dice, now_ms, edges = random.Random(2), NOW_MS, list[Edge]()
    times: list[int] = []
    for number in range(8):
        edges += [Edge(f"stream-{number}"), Edge(f"stream-{number}", f"group-{number}")]
    for _ in edges:
        now_ms += dice.randrange(100_000)
        times.append(now_ms)
    steps = [{"tags": list(edge.tags()), "now_ms": at_ms} for edge, at_ms in zip(edges, times, strict=True)]
    found, parent = ask(python, service="shop", steps=steps)["steps"], 0
    for edge, at_ms, theirs in zip(edges, times, found, strict=True):
        parent = point_hash("shop", edge, parent)
        context = decode_context(theirs["header"].encode(), now_ms)
        assert context is not None, f"garbage in {PATHWAY_HEADER}: {theirs}"
        assert (context.hash, str(context.hash)) == (parent, theirs["hash"])
        assert abs(context.passed_ms - at_ms) <= 1, "its times are seconds in floating point"
        assert abs(context.began_ms - times[0]) <= 1
