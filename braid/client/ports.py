"""The ports as an ordinary process has them, for tools that look deeper into a mesh than a producer or consumer."""

from dataclasses import dataclass

from braid.host.system import system_host
from braid.kafka.cluster import AioKafka
from braid.kernel.ports import Host, Kafka, RpcTransport
from braid.rpc.grpc_transport import GrpcTransport


@dataclass(frozen=True, slots=True)
class Ports:
    """A process's clock and dice, its way to Kafka, its way to services."""

    host: Host
    kafka: Kafka
    transport: RpcTransport


def system_ports(client_id: str) -> Ports:
    """The real ones. Brokers know the process as `client_id`."""
    return Ports(system_host(), AioKafka(client_id), GrpcTransport())
