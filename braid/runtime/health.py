"""Health check of a service process, for containers: `python -m braid.runtime.health [HOST:PORT]`.

Uses `grpc.health.v1`, which every service serves. Without an address it asks the process of this environment, at an
address that needs no certificate: the one in its ready file, else the one it listens on.
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
    """Why the process at `host:port` is unhealthy; empty if it serves."""
    with grpc.insecure_channel(address) as channel:
        try:
            answer = HealthStub(channel).Check(HealthCheckRequest(), timeout=HEALTH_PROBE_SECONDS)
        except grpc.RpcError as error:
            return f"{address} does not answer: {error.code().name}: {error.details()}"
    if answer.status == HealthCheckResponse.SERVING:
        return ""
    return f"{address} answers {HealthCheckResponse.ServingStatus.Name(answer.status)}"


def address_of(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """The address to ask: the argument, the ready file, `BRAID_HEALTH_LISTEN`, `BRAID_LISTEN`; '' if none is
    `host:port`."""
    if arguments:
        return _connectable(arguments[0])
    named = (
        _of_ready_file(environment.get(READY_VARIABLE, "")),
        environment.get(HEALTH_VARIABLE, ""),
        environment.get(LISTEN_VARIABLE, ""),
    )
    return next(filter(None, map(_connectable, named)), "")


def _connectable(address: str) -> str:
    """An address to connect to; '' if it is malformed or has port 0, which stands for any."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) == 0:
        return ""
    return f"{'127.0.0.1' if host in _ANYWHERE else host}:{port}"


def _of_ready_file(path: str) -> str:
    """Where the process of a ready file answers health checks; '' before the file is written."""
    try:
        return str(json.loads(Path(path).read_text()).get("health", "")) if path else ""
    except (OSError, ValueError, AttributeError):
        return ""


def main(arguments: Sequence[str]) -> int:
    """Returns 0 if the process serves, 1 if it does not (with the reason on stderr), 2 if there is no address to
    ask."""
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
