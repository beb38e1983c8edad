"""A secure mesh while its certificates change, and what is left without them: the README runs in plain text, too.

That a new mesh is secure, and that whatever a new user types finds its certificate, is shown by `test_readme`.
"""

import json
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
from tests.support.newcomer import braid, findings
from tests.support.snippets import reader, run_snippet, snippets

pytestmark = [pytest.mark.real, pytest.mark.untimed]

ROOT: Final = Path(__file__).resolve().parents[2]
RELOADED_SECONDS: Final = 120.0  # files are looked at each ten seconds
SNIPPET_SECONDS: Final = 600.0  # by the wall: it ends what hangs, and judges nothing


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Where the new user stands."""
    with reader(tmp_path):
        yield tmp_path


@pytest.mark.extended
@pytest.mark.timeout(1_800)
def test_the_readme_runs_in_plain_text_too_and_doctor_says_so(directory: Path) -> None:
    first, python, last = snippets(ROOT / "README.md")
    start, use = first.body.split("\n", 1)
    assert start == "braid dev --detach"
    said = run_snippet(first._replace(body="braid dev --insecure --detach\n"), directory, SNIPPET_SECONDS)
    assert "WARNING     plain text, as asked" in said
    check_doctor(directory)
    assert "hello" in run_snippet(first._replace(body=use), directory, SNIPPET_SECONDS)
    printed = run_snippet(python, directory, SNIPPET_SECONDS)
    assert re.search(r"^live west 0 b'hello'$", printed, re.MULTILINE), printed
    run_snippet(last, directory, SNIPPET_SECONDS)


def check_doctor(directory: Path) -> None:
    """Nothing names a certificate, and each answer of `doctor` says that everybody may do everything."""
    assert "tls" not in json.loads((directory / ".braid" / "ready.json").read_text())
    told = {each["check"]: each for each in findings(directory) if each["name"] == "services"}
    assert {check: each["level"] for check, each in told.items()} == {"tls": "warn", "access": "warn"}
    assert "every user and program of this machine may call everything" in told["tls"]["message"]
    assert "braid dev --detach" in told["tls"]["remedy"]


@pytest.mark.timeout(900)
def test_certificates_and_ca_rotate_under_a_running_mesh(tmp_path: Path) -> None:
    """At once after each step, old and new files accept one another; later, services show the new ones.

    Examples that nobody tells an endpoint or a certificate find both, before and afterwards.
    """
    with running_mesh(tmp_path / ".braid", clusters=("east",), secure=True) as mesh:
        assert braid(tmp_path, "create", "stream", "logs", "--lane", "live=2").returncode == 0
        assert "sent 1000 records" in example(tmp_path, "produce.py")
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
        assert "handled 1000 records" in example(tmp_path, "consume.py")


def example(directory: Path, script: str) -> str:
    """The output of an example that is started in a directory, without arguments."""
    command = [sys.executable, str(ROOT / "examples" / script)]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=SNIPPET_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
