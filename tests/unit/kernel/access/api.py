"""The control APIs as their descriptors say: every method of every service."""

from collections.abc import Mapping
from typing import NamedTuple

from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection_pb2

from braid.api.assigner.v1 import assigner_service_pb2
from braid.api.dlq.v1 import dlq_service_pb2
from braid.api.keda import externalscaler_pb2
from braid.api.lagmon.v1 import lagmon_service_pb2
from braid.api.registry.v1 import registry_service_pb2
from braid.rpc.methods import method_path

FILES: Mapping[str, FileDescriptor] = {
    "registry": registry_service_pb2.DESCRIPTOR,
    "assigner": assigner_service_pb2.DESCRIPTOR,
    "lagmon": lagmon_service_pb2.DESCRIPTOR,
    "dlq": dlq_service_pb2.DESCRIPTOR,
}


class Method(NamedTuple):
    """A method of a service, and the type of what it is asked with."""

    service: str
    name: str
    request: Descriptor
    response: Descriptor
    client_streams: bool
    server_streams: bool

    @property
    def path(self) -> str:
        """Its name on the wire."""
        foreign = (
            each.services_by_name.values() for each in (externalscaler_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR)
        )
        for described in (each for some in foreign for each in some):
            if self.name in described.methods_by_name:
                return f"/{described.full_name}/{self.name}"
        return method_path(self.service, self.name)

    def message(self) -> Message:
        """An empty request."""
        return GetMessageClass(self.request)()


def methods() -> list[Method]:
    """Every method of the four services, in the order of the protos; KEDA's at the assigner, and reflection at each."""
    keda = list(externalscaler_pb2.DESCRIPTOR.services_by_name["ExternalScaler"].methods)
    (reflection,) = reflection_pb2.DESCRIPTOR.services_by_name.values()
    return [
        Method(service, each.name, each.input_type, each.output_type, each.client_streaming, each.server_streaming)
        for service, file in FILES.items()
        for each in (
            *next(iter(file.services_by_name.values())).methods,
            *(keda if service == "assigner" else ()),
            *reflection.methods,
        )
    ]
