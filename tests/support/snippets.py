"""Pages that are true: their snippets run in order as a reader would run them, and print what the page says.

A block of `bash` or `python` runs. A block of `text` right behind it is all that it prints, line by line. Values of a
kind stand for each other: ages, durations, ids, ports (`KINDS`). Other blocks are pictures.

A block that only looks (`braid get`, `braid describe`) may be run again until it prints what the page shows.
"""

import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final, NamedTuple

from braid.kernel.limits.registry.traffic import ZONE_RETURN_SECONDS
from testbed.mesh import show_logs
from testbed.patience import Deadline

DOWN_SECONDS: Final = 300.0
# A mesh shows what was asked of it within a second or two. Where a machine starves a broker, the registry moves traffic
# off its cluster, and then a lane that is spread over zones stays off that zone for a while, as it should.
LOOK_SECONDS: Final = 30.0 + ZONE_RETURN_SECONDS
LOOK_AGAIN_SECONDS: Final = 0.5
SLACK: Final = 1.5  # waits of a block are so much longer than written, on a machine that gives all its time

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What differs from run to run; the first pattern that matches names the kind.
KINDS: Final = {
    "id": re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}(?::\d+)?"),
    "digest": re.compile(r"\b[0-9a-f]{32}(?:[0-9a-f]{32})?\b"),
    "link": re.compile(r"(?<=/sign-in/)[\w-]+"),
    "date": re.compile(r"\b20\d\d-\d\d-\d\d(?: \d\d:\d\d)?"),
    "time of day": re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b"),
    "epoch milliseconds": re.compile(r"\b1\d{12}\b"),
    "milliseconds": re.compile(r"\b[\d,]+(?:\.\d+)? ms\b"),
    "duration": re.compile(r"\b\d+\.\d+ s\b"),
    "size": re.compile(r"\b\d+(?:\.\d+)? (?:[KMGT]i)?B(?:/s)?(?=\W|$)"),
    "room": re.compile(r"(?<=free \()\d+%"),
    "bytes": re.compile(r'(?<=bytes": )\d+'),
    "age": re.compile(r"\b\d+[smhd](?:\d+[smhd])?\b"),
    "port": re.compile(r"(?<=127\.0\.0\.1:)\d+"),
    "process": re.compile(r"(?<=process )\d+"),
    "replica": re.compile(r"(?<=registry-)\d"),
    "user": re.compile(r"(?<=spiffe://braid\.local/user/)[\w.-]+"),
    "file": re.compile(r'(?<=File ")[^"]+(?=", line )'),
    "line": re.compile(r"(?<=, line )\d+"),
    "number of an event": re.compile(r"(?<=stream/logs/)\d+"),
    "revision": re.compile(r"(?<=route_revision=)\d+"),
    "reason": re.compile(r"(?<=is DOWN: ).+(?=; to )"),
    "later generation": re.compile(r"(?<=orders/live/)[3-9]"),
    "member": re.compile(r"\bcart-\d(?=\s+-\s)"),
    "number": re.compile(r"\b\d+(?= (?:archived events|histories|streams left|drained|looks)\b)"),
    "number after its name": re.compile(r"(?<=partitions:  )\s*\d+|(?<=falls within 5 min:  )\s*\d+"),
    "number of records": re.compile(r"(?<=acknowledged  )\s*\d+|(?<=repeated  )\s*\d+"),
    "drill": re.compile(r"(?<=stream/drill-)\w+"),
    "number of leases": re.compile(r"\b(?:\d+|no) leases?(?= would| to go)"),
    "load": re.compile(r"\b\d+\.\d\d(?= (?:now|then))"),
    "lag": re.compile(r"\b4,\d{3}\s+\d+\.\d|(?<=live )\d+\.\d(?=\))"),
}
_WAIT: Final = re.compile(r"(?<=--timeout )\d+|(?<=asyncio\.timeout\()\d+|(?<=\.take\()\d+")


class Snippet(NamedTuple):
    """A block of a page. `printed` is what the page says it prints."""

    place: str
    language: str
    body: str
    printed: str = ""


def snippets(page: Path) -> list[Snippet]:
    """The blocks of a page that run, in order."""
    text = page.read_text()
    found: list[Snippet] = []
    end = 0
    for block in _BLOCK.finditer(text):
        place = f"{page.name}:{text.count(chr(10), 0, block.start()) + 1}"
        if block[1] in ("bash", "python"):
            found.append(Snippet(place, block[1], block[2]))
        elif block[1] == "text" and found and not text[end : block.start()].strip():
            found[-1] = found[-1]._replace(printed=block[2])
        end = block.end()
    return found


def run_snippet(
    snippet: Snippet, directory: Path, timeout_seconds: float, slack: float = 1.0, commands: Path | None = None
) -> str:
    """Runs a block where the reader stands; returns what it printed.

    Args:
        snippet: Which.
        directory: Where the reader stands.
        timeout_seconds: For all of it, by the wall: it ends what hangs.
        slack: How many times longer than written the block's own waits are.
        commands: Where commands are looked for first; where they are installed by default.
    """
    look_again = Deadline(LOOK_SECONDS if looks_only(snippet) else 0.0)
    while True:
        output, told = _run_once(snippet, directory, timeout_seconds, slack, commands)
        wrong = first_difference(snippet.printed, output) if snippet.printed else ""
        if not wrong or look_again.passed:
            break
        time.sleep(LOOK_AGAIN_SECONDS)
    assert not wrong, f"never printed {wrong!r}: {told}"
    return output


def looks_only(snippet: Snippet) -> bool:
    """Whether a block changes nothing, so that a reader may run it again."""
    lines = [line for line in snippet.body.splitlines() if line.strip()]
    return snippet.language == "bash" and all(line.startswith(("braid get ", "braid describe ")) for line in lines)


def _run_once(
    snippet: Snippet, directory: Path, timeout_seconds: float, slack: float, commands: Path | None
) -> tuple[str, str]:
    """Runs a block that must end with 0; what it printed, and the whole account of it."""
    body = stretched(snippet.body, slack)
    command = [sys.executable, "-c", body] if snippet.language == "python" else ["bash", "-euo", "pipefail", "-c", body]
    first = [] if commands is None else [str(commands)]
    path = os.pathsep.join([*first, str(Path(sys.executable).parent), os.environ["PATH"]])
    with (
        TemporaryFile("w+", encoding="utf-8") as printed,
        TemporaryFile("w+", encoding="utf-8") as said,
        subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=said,
            start_new_session=True,
        ) as running,
    ):
        try:
            running.wait(timeout_seconds)
            end = f"ended with {running.returncode}"
        except subprocess.TimeoutExpired:
            end = f"still ran after {timeout_seconds:g} s by the wall"
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)  # and what it left in the background
        printed.seek(0)
        said.seek(0)
        output = printed.read()
        told = f"{snippet.place}\n{body}\n--- printed\n{output}\n--- and said\n{said.read()}"
    assert end == "ended with 0", f"{end}: {told}"
    return output, told


def run_page(found: Sequence[Snippet], directory: Path, timeout_seconds: float, commands: Path | None = None) -> None:
    """Runs a page's blocks one after another; fails with everything that was not as the page says.

    Waits that blocks state are for a machine that gives its time; they are longer as far as this one gave less so far.
    """
    wrong: list[str] = []
    page = Deadline(timeout_seconds)
    for snippet in found:
        try:
            run_snippet(snippet, directory, timeout_seconds, SLACK / page.share, commands)
        except AssertionError as error:  # the blocks after it show whether it is this one alone
            wrong.append(str(error))
    assert not wrong, "\n\n".join(wrong)


@contextmanager
def reader(directory: Path) -> Iterator[Path]:
    """Where a reader stands; the mesh that runs there afterwards is ended."""
    try:
        yield directory
    finally:
        if (directory / ".braid").exists():
            braid = str(Path(sys.executable).parent / "braid")
            down = [braid, "dev", "down", "--dir", str(directory / ".braid")]
            subprocess.run(down, capture_output=True, check=False, timeout=DOWN_SECONDS)
            show_logs(directory)


def stretched(body: str, slack: float) -> str:
    """A block whose waits (`--timeout 5`, `asyncio.timeout(5)`, `.take(5)`) are so many times longer, in seconds."""
    return _WAIT.sub(lambda seconds: str(math.ceil(int(seconds[0]) * slack)), body)


def first_difference(expected: str, printed: str) -> str:
    """The first line that a page shows and that was not printed at its place, or was printed and is not shown.

    Values of a kind stand for each other. '' when all lines are the same.
    """
    shown = [line for line in expected.splitlines() if line.strip()]
    found = [line for line in printed.splitlines() if line.strip()]
    for one, other in zip_longest(shown, found, fillvalue=""):
        if _by_kind(one) != _by_kind(other):
            return one or other
    return ""


def _by_kind(line: str) -> list[str]:
    """The words of a line, with a kind's name in place of each value of that kind."""
    for kind, pattern in KINDS.items():
        line = pattern.sub(f"<{kind}>", line)
    return line.split()
