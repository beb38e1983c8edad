"""Which replica of a real mesh leads."""

import braid
from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
from testbed.patience import until


async def leader(mesh: braid.Mesh, other_than: str = "") -> str:
    """The assigner that leads; waits for another than the one named."""
    found: list[str] = []

    async def told() -> list[str]:
        answer = await mesh.service("assigner").unary("ListEndpoints", ListEndpointsRequest(), ListEndpointsResponse)
        leading = (each.instance for each in answer.endpoints if each.service == "assigner" and each.leader)
        found[:] = [each for each in leading if each != other_than]
        return found

    await until(told, "an assigner leads")
    return found[0]
