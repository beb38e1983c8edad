"""Two people who delete a group again and again, by the four-eyes rule, while faults happen."""

from typing import Final, TypeVar

from google.protobuf.message import Message

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.registry.v1 import approval_pb2 as api
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import AlreadyExists, ApprovalRequired, BraidError, Invalid, NotFound
from braid.kernel.ports import Host
from braid.rpc.directory import Directory
from braid.rpc.memory.network import MemoryNetwork
from braid.rpc.memory.transport import MemoryTransport
from braid.rpc.mesh_client import ServiceClient
from tests.simulation.journal import Journal

M = TypeVar("M", bound=Message)
AUTHOR: Final = "spiffe://simulation.local/user/author"
COLLEAGUE: Final = "spiffe://simulation.local/user/colleague"
GROUP: Final = "papers"
_STREAM: Final = "papers"
_LANE: Final = "spare"
_AGAIN_SECONDS: Final = 0.3
_PAUSE_SECONDS: Final = 0.7


class Colleagues:
    """Two people who work at the same mesh.

    One asks, and tries to approve it itself. The other approves. The first repeats, and sends that twice.
    """

    def __init__(self, host: Host, network: MemoryNetwork, journal: Journal, endpoints: tuple[str, ...]) -> None:
        self._host = host
        self._journal = journal
        self._directories = {
            who: Directory(MemoryTransport(network, f"caller {who}", who), self._host, endpoints)
            for who in (AUTHOR, COLLEAGUE)
        }

    async def prepare(self, clusters: tuple[str, ...]) -> None:
        """Declares a stream for the group, and guards deletions of groups."""
        lanes = {_LANE: stream_pb2.LaneSpec(partitions=1)}
        spec = stream_pb2.StreamSpec(lanes=lanes, clusters=clusters, replication_factor=1)
        made = registry_api.CreateStreamRequest(name=_STREAM, spec=spec)
        await self._insist(AUTHOR, "registry", "CreateStream", made, stream_pb2.Stream)
        policy = api.ApprovalPolicySpec(verbs=[api.GUARDED_VERB_DELETE_GROUP])
        request = api.SetApprovalPolicyRequest(name="careful", spec=policy)
        await self._insist(AUTHOR, "registry", "SetApprovalPolicy", request, api.ApprovalPolicy)
        await self._host.clock.sleep(1.0)  # every assigner knows

    async def run(self, seconds: float) -> None:
        """Deletes the group again and again for so long; leaves none behind."""
        until = self._host.clock.elapsed() + seconds
        while self._host.clock.elapsed() < until:
            group = group_pb2.GroupSpec(streams=[_STREAM], lanes={_LANE: 1})
            made = assigner_api.CreateGroupRequest(name=GROUP, spec=group)
            await self._insist(AUTHOR, "assigner", "CreateGroup", made, group_pb2.Group)
            await self._delete()
            await self._host.clock.sleep(_PAUSE_SECONDS)

    async def _delete(self) -> None:
        request = assigner_api.DeleteGroupRequest(name=GROUP)
        while True:
            request_id = self._host.ids.ulid()
            try:
                for _ in range(2):  # told twice: the second time nothing is left, or the approval is used
                    await self._call(AUTHOR, "assigner", "DeleteGroup", request, group_pb2.Group, request_id)
            except NotFound:
                return
            except ApprovalRequired as error:
                await self._approve(AUTHOR, error.metadata["approval"])
                await self._delete_unapproved(request)
                await self._approve(COLLEAGUE, error.metadata["approval"])
            except BraidError as error:
                self._journal.say(f"AUTHOR does not know: {error}")
            else:
                return
            await self._host.clock.sleep(_AGAIN_SECONDS)

    async def _delete_unapproved(self, request: assigner_api.DeleteGroupRequest) -> None:
        """Repeats the request at once, which nobody else has approved."""
        try:
            await self._call(AUTHOR, "assigner", "DeleteGroup", request, group_pb2.Group, self._host.ids.ulid())
        except BraidError as error:
            self._journal.say(f"AUTHOR is impatient: {error}")

    async def _approve(self, who: str, id: str) -> None:
        try:
            await self._call(who, "registry", "DecideApproval", api.DecideApprovalRequest(id=id), api.Approval)
        except BraidError as error:
            self._journal.say(f"{who} has not approved {id}: {error}")

    async def _insist(self, who: str, service: str, method: str, request: Message, answer: type[M]) -> None:
        while True:
            try:
                await self._call(who, service, method, request, answer)
            except AlreadyExists:
                return
            except Invalid:
                raise
            except BraidError as error:
                self._journal.say(f"{method} again: {error}")
                await self._host.clock.sleep(_AGAIN_SECONDS)
            else:
                return

    async def _call(
        self, who: str, service: str, method: str, request: Message, answer: type[M], request_id: str = ""
    ) -> M:
        client = ServiceClient(self._directories[who], service, self._host, principal=who)
        return await client.unary(method, request, answer, request_id=request_id, timeout_seconds=4.0)
