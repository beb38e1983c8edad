"""Asks a service process how it is: `python -m braid.runtime.health [HOST:PORT]`, for container health checks.

Speaks `grpc.health.v1`, which every service serves; without an address it asks the process of this environment where
that answers without a certificate: as its ready file says, else where it listens.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from braid.kernel.limits.runtime import HEALTH_PROBE_SECONDS

READY_VARIABLE: Final = "BRAID_READY_FILE"
HEALTH_VARIABLE: Final = "BRAID_HEALTH_LISTEN"
LISTEN_VARIABLE: Final = "BRAID_LISTEN"
_ANYWHERE: Final = ("0.0.0.0", "::", "[::]")  # addresses to listen on, not to connect to


def complaint(address: str) -> str:
    """What is wrong with the process at `host:port`; empty when it serves."""
    with grpc.insecure_channel(address) as channel:
        try:
            answer = HealthStub(channel).Check(HealthCheckRequest(), timeout=HEALTH_PROBE_SECONDS)
        except grpc.RpcError as error:
            return f"{address} does not answer: {error.code().name}: {error.details()}"
    if answer.status == HealthCheckResponse.SERVING:
        return ""
    return f"{address} answers {HealthCheckResponse.ServingStatus.Name(answer.status)}"


def address_of(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Whom to ask: the argument, the ready file, `BRAID_HEALTH_LISTEN`, `BRAID_LISTEN`; '' when none is `host:port`."""
    if arguments:
        return _connectable(arguments[0])
    named = (
        _of_ready_file(environment.get(READY_VARIABLE, "")),
        environment.get(HEALTH_VARIABLE, ""),
        environment.get(LISTEN_VARIABLE, ""),
    )
    return next(filter(None, map(_connectable, named)), "")


def _connectable(address: str) -> str:
    """An address to connect to; '' for what is none, or for port 0, which stands for any."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) == 0:
        return ""
    return f"{'127.0.0.1' if host in _ANYWHERE else host}:{port}"


def _of_ready_file(path: str) -> str:
    """Where the process of a ready file answers health checks; '' before it is written."""
    try:
        return str(json.loads(Path(path).read_text()).get("health", "")) if path else ""
    except (OSError, ValueError, AttributeError):
        return ""


def main(arguments: Sequence[str]) -> int:
    """0 when the process serves, 1 when it does not (said on stderr), 2 when there is nobody to ask."""
    address = address_of(arguments, os.environ)
    if not address:
        print(f"usage: python -m braid.runtime.health HOST:PORT, or set {LISTEN_VARIABLE}", file=sys.stderr)
        return 2
    wrong = complaint(address)
    if wrong:
        print(wrong, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
