"""The README is true: every command and snippet in it runs, in order, as a new user would run them.

The mesh is secure. Nobody names a certificate; commands, snippets and examples find it.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Final
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from testbed.patience import wait
from tests.support.newcomer import braid, findings
from tests.support.snippets import reader, run_snippet, snippets

pytestmark = pytest.mark.untimed

ROOT = Path(__file__).resolve().parents[2]
SNIPPET_SECONDS = 600.0  # by the wall: it ends what hangs, and judges nothing
EXAMPLES: Final = {  # with the records of the README, two by its commands and one by its snippet
    "produce": "sent 1000 records",
    "consume": "handled 1003 records",
    "columns": "counted 1003 records",
    "without_asyncio": "saw 1004 records",
}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where the new user stands."""
    with reader(tmp_path):
        yield tmp_path


@pytest.mark.timeout(1_200)
def test_first_stream_in_five_minutes(directory: Path) -> None:
    first, snippet, last = snippets(ROOT / "README.md")
    assert [first.language, snippet.language, last.language] == ["bash", "python", "bash"]

    said = run_snippet(first, directory, SNIPPET_SECONDS)
    check_console(said)
    printed = run_snippet(snippet, directory, SNIPPET_SECONDS)
    assert "hello" in said
    assert "DOWN" in said or "SUSPECT" in said or "HEALTHY" in said
    assert re.search(r"^live west 0 b'hello'$", printed, re.MULTILINE), printed

    braid(directory, "dev", "start", "east")
    check_files(directory)
    check_outside(directory)
    for example, said in EXAMPLES.items():
        command = [sys.executable, str(ROOT / "examples" / f"{example}.py")]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=SNIPPET_SECONDS)
        assert said in done.stdout, done.stderr
    run_snippet(last, directory, SNIPPET_SECONDS)


def check_console(said: str) -> None:
    """The link that the first block prints signs its user in."""
    link = re.search(r"^http\S+/sign-in/\S+\?to=%2Fstreams%2Flogs$", said, re.MULTILINE)
    assert link is not None, said
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    browser.open(link[0], timeout=60.0).read()
    with browser.open(link[0].partition("/sign-in/")[0] + "/api/session", timeout=60.0) as answer:
        assert json.load(answer)["signed_in"]


def check_files(directory: Path) -> None:
    """Keys and certificates are for their owner alone, documents name the user's, and `doctor` has nothing to say."""
    found = [path for path in (directory / ".braid" / "tls").rglob("*") if path.is_file() and not path.is_symlink()]
    assert {path.stat().st_mode & 0o777 for path in found} == {0o600}
    ready = json.loads((directory / ".braid" / "ready.json").read_text())
    status = json.loads(braid(directory, "dev", "status", "-o", "json").stdout)
    assert status["tls"] == ready["tls"]
    assert {Path(path).name for path in ready["tls"].values()} == {"ca.pem", "certificate.pem", "key.pem"}
    told = {each["check"]: each for each in findings(directory) if each["name"] == "services"}
    assert {check: (each["level"], each["message"]) for check, each in told.items()} == {
        "tls": ("ok", "mutual TLS alone"),
        "access": ("ok", "rights are enforced: what is not granted is refused"),
    }


def check_outside(directory: Path) -> None:
    """A caller from elsewhere is refused without a certificate, and let in with the variables that `dev` printed."""
    ready = json.loads((directory / ".braid" / "ready.json").read_text())
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    named = {"BRAID_ENDPOINT": ready["endpoint"]}
    refused = braid(elsewhere, "get", "streams", **named)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "the server wants mutual TLS" in refused.stderr
    named |= {f"BRAID_TLS_{role.upper()}": path for role, path in ready["tls"].items()}
    assert "logs" in braid(elsewhere, "get", "streams", **named).stdout
    check_stranger(directory, named)


def check_stranger(directory: Path, named: dict[str, str]) -> None:
    """A caller with a certificate of the mesh's CA and no grant is refused until the mesh's admin grants."""
    ca = directory / ".braid" / "tls"
    issued = braid(directory, "certs", "issue", "app/orders", "--dir", str(ca))
    assert issued.returncode == 0, issued.stderr
    files = {"CERTIFICATE": "certificate.pem", "KEY": "key.pem", "CA": "ca.pem"}
    stranger = {**named, **{f"BRAID_TLS_{role}": str(ca / "app" / "orders" / file) for role, file in files.items()}}
    line = ("get", "streams")
    refused = braid(directory / "elsewhere", *line, **stranger)
    assert (refused.returncode, refused.stdout) == (4, "")
    assert "spiffe://braid.local/app/orders may not view every stream" in refused.stderr
    grant = ("grant", "viewer", "--to", "spiffe://braid.local/app/orders", "--on", "stream/*")
    assert braid(directory, *grant).returncode == 0
    wait(lambda: braid(directory / "elsewhere", *line, **stranger).returncode == 0, "the grant counts")


def test_the_two_commands_are_targets_of_the_makefile() -> None:
    promised = re.findall(r"^make (\w+) +#", (ROOT / "README.md").read_text(), re.MULTILINE)
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)

    assert promised == ["demo", "test"]
    assert set(promised) <= set(targets)


def test_every_file_the_readme_points_to_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())

    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
