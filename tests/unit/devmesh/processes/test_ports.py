"""Ports are free when claimed, claimed once on a machine, and given back when their process ends."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from braid.kernel.errors import Refused
from devmesh.processes.ports import PortClaims, is_free
from testbed.ports import free_port

_CLAIM = "import sys; from pathlib import Path; from devmesh.processes.ports import PortClaims; "


def test_a_claimed_port_is_passed_over_by_others(tmp_path: Path) -> None:
    first = free_port()
    with PortClaims(tmp_path) as ours, PortClaims(tmp_path) as theirs:
        port = ours.claim_above(first)
        assert is_free(port)
        assert theirs.claim_above(port) > port
        with pytest.raises(Refused, match=f"port {port} is in use"):
            theirs.claim_exactly(port)


def test_a_port_is_not_claimed_twice_by_one(tmp_path: Path) -> None:
    with PortClaims(tmp_path) as claims:
        port = claims.claim_above(free_port())
        assert claims.claim_above(port) > port


def test_a_port_in_use_is_passed_over(tmp_path: Path) -> None:
    with socket.socket() as other, PortClaims(tmp_path) as claims:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert claims.claim_above(port) > port
        with pytest.raises(Refused, match="choose another --port"):
            claims.claim_exactly(port)


def test_a_port_comes_back_with_the_end_of_its_process(tmp_path: Path) -> None:
    port = free_port()
    code = f"{_CLAIM} PortClaims(Path(sys.argv[1])).claim_exactly({port}); import os; os._exit(9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[4])
    with PortClaims(tmp_path) as claims:
        assert claims.claim_again(port, 1024) == port


def test_a_port_that_stays_taken_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devmesh.processes.ports.DEV_PORT_WAIT_SECONDS", 0.1)
    first = free_port()
    with PortClaims(tmp_path) as ours, PortClaims(tmp_path) as theirs:
        taken = theirs.claim_above(first)
        assert ours.claim_again(taken, taken) > taken
