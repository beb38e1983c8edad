"""A few seconds of fuzzing of all that reads others' bytes; and the fuzzer finds what is planted."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest

SECONDS: Final = 3
TARGETS: Final = ("metadata", "envelope", "spill", "records", "commits")
PLANTED: Final = "planted"
BEGINNING: Final = "beginning-"
ROOT: Final = Path(__file__).parents[3]

pytestmark = pytest.mark.slow


class Fuzzed(NamedTuple):
    """All targets after a while of fuzzing.

    Attributes:
        codes: Exit code of each.
        printed: By the fuzzer, about all of them.
        corpus: Directory that has a directory for each target, and what broke one.
    """

    codes: dict[str, int]
    printed: str
    corpus: Path


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Fuzzed:
    """All targets, fuzzed by one command: most of the work is to load what is fuzzed."""
    corpus = tmp_path_factory.mktemp("corpus")
    command = [sys.executable, "-m", "tests.support.fuzzing", *TARGETS, PLANTED]
    options = ["--seconds", f"{SECONDS}", "--corpus", f"{corpus}"]
    out = subprocess.PIPE
    ended = subprocess.run([*command, *options], cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, text=True, timeout=120)
    assert ended.returncode != 0, "something is planted"
    codes = {target: int(code) for target, code in re.findall(r"^ended (\w+): (-?\d+)$", ended.stdout, re.MULTILINE)}
    return Fuzzed(codes, ended.stdout, corpus)


@pytest.mark.parametrize("target", TARGETS)
def test_any_bytes_are_read_or_refused(fuzzed: Fuzzed, target: str) -> None:
    assert fuzzed.codes[target] == 0, fuzzed.printed[-4_000:]
    kept = [each.name for each in (fuzzed.corpus / target).iterdir() if not each.name.startswith(BEGINNING)]
    print(target, len(kept))
    assert len(kept) > 5, "nothing new was met"


def test_what_is_planted_is_found(fuzzed: Fuzzed) -> None:
    assert fuzzed.codes[PLANTED] != 0
    assert "AssertionError: found" in fuzzed.printed
    assert list(fuzzed.corpus.glob("planted-broken-*"))
