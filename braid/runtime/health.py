"""Asks a service process how it is: `python -m braid.runtime.health [HOST:PORT]`, for container health checks.

Speaks `grpc.health.v1`, which every service serves; without an address it asks where the process of this environment
listens.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import grpc
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse
from grpc_health.v1.health_pb2_grpc import HealthStub

from braid.kernel.limits.runtime import HEALTH_PROBE_SECONDS

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
    """Whom to ask: the argument, else where `BRAID_LISTEN` says; empty when neither is `host:port`."""
    host, _, port = (arguments[0] if arguments else environment.get(LISTEN_VARIABLE, "")).rpartition(":")
    if not host or not port.isdecimal():
        return ""
    return f"{'127.0.0.1' if host in _ANYWHERE else host}:{port}"


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
