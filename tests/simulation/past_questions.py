"""Questions about the past in a run, over the RPCs that `braid why`, `describe` and `events` use with `--at`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from google.protobuf.message import Message

from braid.api.assigner.v1 import assigner_service_pb2 as assigner
from braid.api.mesh.v1.event_pb2 import ListEventsRequest, ListEventsResponse
from braid.api.registry.v1 import registry_service_pb2 as registry
from braid.kernel.errors import HistoryHole
from braid.kernel.ports import CallOptions, RpcTransport
from braid.rpc.methods import method_path
from tests.simulation.applications import GROUP, STREAM

LATEST: Final = 30  # events before the moment that a question for them asks for
_LEASES: Final = (f"{STREAM}/live/1/0", f"{STREAM}/live/2/1", f"{STREAM}/bulk/1/0")
_DEADLINE_SECONDS: Final = 8.0
_PastList = registry.ListPastStreamsResponse | registry.ListPastClustersResponse | assigner.ListPastGroupsResponse


class Question(NamedTuple):
    """A request about one moment, and how its answer is read.

    Attributes:
        service: Who is asked.
        read: Makes a value of the answer that a later one must equal. Raises `HistoryHole` for one with gaps.
    """

    service: str
    method: str
    request: Message
    response_type: type
    read: Callable[[Any], object]

    def __str__(self) -> str:
        return f"{self.service} {self.method} {str(self.request).strip()}".replace("\n", ", ")

    async def ask(self, transport: RpcTransport, address: str) -> object:
        """Asks one replica, leader or not. Raises its error."""
        channel = transport.channel(address)
        try:
            options = CallOptions(_DEADLINE_SECONDS, principal="historian")
            path = method_path(self.service, self.method)
            return self.read(await channel.unary(path, self.request, self.response_type, options))
        finally:
            await channel.close()


def questions(service: str, at_ms: int, clusters: Sequence[str]) -> list[Question]:
    """All that may be asked of a service about a moment."""
    if service == "registry":
        return [
            *(_described(registry.DescribePastRequest(cluster=name, at_ms=at_ms)) for name in clusters),
            _described(registry.DescribePastRequest(stream=STREAM, at_ms=at_ms)),
            *_whole(service, at_ms),
            _listed(service, f"stream/{STREAM}", at_ms),
        ]
    return [
        *(_explained(lease, at_ms) for lease in _LEASES),
        _described(assigner.DescribePastRequest(group=GROUP, at_ms=at_ms)),
        *_whole(service, at_ms),
        _listed(service, f"group/{GROUP}", at_ms),
    ]


@dataclass(frozen=True, eq=False)
class Explained:
    """Where a lease was, and why. A story may begin earlier or later than it did when it was first told."""

    lease: bytes
    kept_from: int
    reasons: Sequence[tuple[int, str]]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Explained):
            return NotImplemented
        first = max(self.kept_from, other.kept_from)
        return self.lease == other.lease and self._since(first) == other._since(first)

    def _since(self, first: int) -> list[tuple[int, str]]:
        return [each for each in self.reasons if each[0] >= first]


def _explained(lease: str, at_ms: int) -> Question:
    def read(answer: assigner.ExplainLeaseResponse) -> Explained:
        reasons = [(each.sequence, each.text) for each in answer.reasons]
        return Explained(answer.lease.SerializeToString(deterministic=True), answer.kept_from_sequence, reasons)

    request = assigner.ExplainLeaseRequest(lease=lease, group=GROUP, at_ms=at_ms)
    return Question("assigner", "ExplainLease", request, assigner.ExplainLeaseResponse, read)


def _described(request: registry.DescribePastRequest | assigner.DescribePastRequest) -> Question:
    def read(answer: Message) -> bytes:
        return answer.SerializeToString(deterministic=True)

    if isinstance(request, registry.DescribePastRequest):
        return Question("registry", "DescribePast", request, registry.DescribePastResponse, read)
    return Question("assigner", "DescribePast", request, assigner.DescribePastResponse, read)


def _whole(service: str, at_ms: int) -> list[Question]:
    """Lists of everything that a service had, each of one page. Any gap is a refusal."""

    def read(answer: _PastList) -> bytes:
        if answer.gaps:
            raise HistoryHole(f"events are missing: {answer.gaps[0].reason}", field="at_ms", remedy="")
        return answer.SerializeToString(deterministic=True)

    if service == "assigner":
        groups = assigner.ListPastGroupsRequest(at_ms=at_ms)
        return [Question(service, "ListPastGroups", groups, assigner.ListPastGroupsResponse, read)]
    streams, clusters = registry.ListPastStreamsRequest(at_ms=at_ms), registry.ListPastClustersRequest(at_ms=at_ms)
    return [
        Question(service, "ListPastStreams", streams, registry.ListPastStreamsResponse, read),
        Question(service, "ListPastClusters", clusters, registry.ListPastClustersResponse, read),
    ]


def _listed(service: str, history: str, at_ms: int) -> Question:
    def read(answer: ListEventsResponse) -> list[tuple[int, bytes]]:
        if answer.gaps:
            raise HistoryHole(f"events are missing: {answer.gaps[0].reason}", field="until_ms", remedy="")
        return [(each.sequence, each.data) for each in answer.events]

    request = ListEventsRequest(history=history, until_ms=at_ms, latest=LATEST)
    return Question(service, "ListEvents", request, ListEventsResponse, read)
