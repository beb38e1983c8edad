"""A new user's commands work unchanged against a secure mesh: the README, the page about Spark, and the examples."""

import json
import os
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificates

from testbed.mesh import running_mesh
from testbed.patience import wait
from tests.support.snippets import Snippet, reader, run_page, run_snippet, snippets

pytestmark = [pytest.mark.real, pytest.mark.untimed]

ROOT: Final = Path(__file__).resolve().parents[2]
BIN: Final = Path(sys.executable).parent
RELOADED_SECONDS: Final = 120.0  # files are looked at each ten seconds
SNIPPET_SECONDS: Final = 600.0  # by the wall: it ends what hangs, and judges nothing
EXAMPLES: Final = {
    "produce": "sent 1000 records",
    "consume": "handled 1002 records",  # with the two of the README
    "columns": "counted 1002 records",
    "without_asyncio": "saw 1003 records",
}


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where the new user stands."""
    with reader(tmp_path):
        yield tmp_path


@pytest.mark.timeout(1_800)
def test_a_new_user_needs_nothing_else_for_a_secure_mesh(directory: Path) -> None:
    first, python, last = snippets(ROOT / "README.md")
    start, use, leave = parts_of(first)
    run_snippet(start, directory, SNIPPET_SECONDS)
    assert "hello" in run_snippet(use, directory, SNIPPET_SECONDS)
    for example, said in EXAMPLES.items():
        command = [sys.executable, str(ROOT / "examples" / f"{example}.py")]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=SNIPPET_SECONDS)
        assert said in done.stdout, done.stderr
    run_page(snippets(ROOT / "docs" / "guides" / "running-a-spark-job.md"), directory, SNIPPET_SECONDS)
    check_files(directory)
    check_outside(directory)
    run_snippet(leave, directory, SNIPPET_SECONDS)
    printed = run_snippet(python, directory, SNIPPET_SECONDS)
    assert re.search(r"^live west \d+ b'", printed, re.MULTILINE), printed
    run_snippet(last, directory, SNIPPET_SECONDS)


@pytest.mark.timeout(900)
def test_certificates_and_ca_rotate_under_a_running_mesh(tmp_path: Path) -> None:
    """At once after each step, old and new files accept one another; later, services show the new ones."""
    with running_mesh(tmp_path / ".braid", clusters=("east",), secure=True) as mesh:
        replicas = {name: each.address for name, each in mesh.ready.services.items()}
        for step in (("--within", "3650"), ("--ca",), ("--ca", "--finish")):
            done = braid(tmp_path, "certs", "rotate", *step, "--dir", ".braid/tls")
            assert f"{len(replicas) + 2} renewed" in done.stdout, done.stderr
            called = braid(tmp_path, "get", "clusters")
            assert "east" in called.stdout, called.stderr
            for name, address in replicas.items():
                wait(
                    partial(shows_its_file, tmp_path, name, address), f"{name} shows what {step} made", RELOADED_SECONDS
                )
            called = braid(tmp_path, "get", "clusters")
            assert "east" in called.stdout, called.stderr


def shows_its_file(directory: Path, name: str, address: str) -> bool:
    """Whether a replica shows the certificate that lies in its directory now; asks as the mesh's user."""
    tls = directory / ".braid" / "tls"
    (user,) = [each for each in (tls / "user").iterdir() if each.is_symlink()]
    context = ssl.create_default_context(cafile=user / "ca.pem")
    context.load_cert_chain(user / "certificate.pem", user / "key.pem")
    host, _, port = address.rpartition(":")
    with (
        socket.create_connection((host, int(port)), 10.0) as wire,
        context.wrap_socket(wire, server_hostname=host) as end,
    ):
        shown = end.getpeercert(binary_form=True)
    (lies, *_) = load_pem_x509_certificates((tls / "service" / name / "certificate.pem").read_bytes())
    return shown == lies.public_bytes(Encoding.DER)


def parts_of(first: Snippet) -> tuple[Snippet, Snippet, Snippet]:
    """The README's first block as three: the start, made secure; the use of a stream; the move and the fault."""
    start, rest = first.body.split("\n", 1)
    assert start == "braid dev --detach"
    use, move, leave = rest.partition("braid move stream")
    assert move
    bodies = ("braid dev --secure --detach\n", use, move + leave)
    return tuple(first._replace(body=body) for body in bodies)  # type: ignore[return-value]  # there are three


def check_files(directory: Path) -> None:
    """Keys and certificates are for their owner alone, and the documents name the user's."""
    found = [path for path in (directory / ".braid" / "tls").rglob("*") if path.is_file() and not path.is_symlink()]
    assert {path.stat().st_mode & 0o777 for path in found} == {0o600}
    ready = json.loads((directory / ".braid" / "ready.json").read_text())
    status = json.loads(braid(directory, "dev", "status", "-o", "json").stdout)
    assert status["tls"] == ready["tls"]
    assert {Path(path).name for path in ready["tls"].values()} == {"ca.pem", "certificate.pem", "key.pem"}
    findings = json.loads(braid(directory, "doctor", "-o", "json").stdout)["findings"]
    assert ("tls", "mutual TLS alone") in [(each["check"], each["message"]) for each in findings]


def check_outside(directory: Path) -> None:
    """A caller from elsewhere is refused without a certificate, and admitted with the variables that `dev` printed."""
    ready = json.loads((directory / ".braid" / "ready.json").read_text())
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    named = {"BRAID_ENDPOINT": ready["endpoint"]}
    refused = braid(elsewhere, "get", "streams", **named)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "the server wants mutual TLS" in refused.stderr
    named |= {f"BRAID_TLS_{role.upper()}": path for role, path in ready["tls"].items()}
    assert "logs" in braid(elsewhere, "get", "streams", **named).stdout


def braid(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One command of a user who stands in a directory."""
    return subprocess.run(
        [BIN / "braid", *arguments],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SNIPPET_SECONDS,
    )
