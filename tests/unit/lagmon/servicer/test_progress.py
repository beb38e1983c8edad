"""Any replica tells what of a partition is done, rejected and retried, or why it cannot."""

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from braid.api.lagmon.v1 import lagmon_service_pb2 as api
from braid.api.lagmon.v1.progress_pb2 import Progress
from braid.kernel.envelope import encode
from braid.kernel.errors import BraidError, Invalid, NotFound, Unavailable
from braid.kernel.limits.lagmon.sampling import LAG_PROGRESS_SPANS_MAX
from braid.kernel.ports import Caller, CallOptions
from braid.kernel.progress.fields import Attempts, EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from braid.rpc.methods import method_path
from services.lagmon.policy import Commit
from services.lagmon.servicer.progress import ProgressReads, progress_message
from tests.support.virtual_time import run_virtual
from tests.unit.lagmon.mesh import LOGS, Mesh

ASKED = api.GetProgressRequest(group="g", cluster="east", topic=LOGS, partition=0)
CALLER = Caller("tests", "", "", "")
FIELDS = EnvelopeFields(
    base=10,
    done=Ranges([(12, 15), (20, 21)]),
    rejected=Ranges([(4, 5), (13, 15)]),
    attempts=(Attempts(11, 3),),
    epoch=7,
)


def play(scene: Callable[[Mesh], Coroutine[Any, Any, None]], replicas: int) -> None:
    async def run() -> None:
        mesh = await Mesh(("east",)).start(replicas)
        mesh.channel(partitions=1)
        mesh.assigner.groups = {"g": ()}
        mesh.produce(30)
        mesh.commit("g", FIELDS)
        await mesh.until(lambda rows: rows and rows[0].committed_offset == 10)
        await mesh.clock.sleep(5.0)
        await scene(mesh)

    run_virtual(run())


async def ask(mesh: Mesh, number: int, request: api.GetProgressRequest = ASKED) -> Progress:
    channel = mesh.transport.channel(f"lagmon-{number}:1")
    return await channel.unary(method_path("lagmon", "GetProgress"), request, Progress, CallOptions(5.0))


def spans(found: Any) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in found]


def test_every_replica_tells_what_one_of_them_reads() -> None:
    """One cluster is read by one of two replicas: the other asks it."""

    async def scene(mesh: Mesh) -> None:
        answers = [await ask(mesh, number) for number in range(2)]
        assert answers[0] == answers[1]
        found = answers[0]
        assert (found.committed_offset, found.epoch, found.has_envelope, found.partial) == (10, 7, True, False)
        assert spans(found.done) == [(12, 14), (20, 20)]
        assert spans(found.rejected) == [(4, 4), (13, 14)]
        assert [(each.offset, each.attempts) for each in found.retried] == [(11, 3)]
        own = []
        for number in range(2):
            with contextlib.suppress(NotFound):
                own.append(await ask(mesh, number, api.GetProgressRequest(**_fields(), own_only=True)))
        assert len(own) == 1, "one replica reads the cluster, or this shows nothing"

    play(scene, 2)


def _fields() -> dict[str, Any]:
    return {"group": "g", "cluster": "east", "topic": LOGS, "partition": 0}


def test_what_nobody_committed_is_not_found() -> None:
    async def scene(mesh: Mesh) -> None:
        for other in ({"group": "h"}, {"cluster": "west"}, {"topic": "t"}, {"partition": 1}):
            with pytest.raises(NotFound, match="no commit of"):
                await ask(mesh, 0, api.GetProgressRequest(**{**_fields(), **other}))

    play(scene, 2)


@pytest.mark.parametrize(
    ("other", "field"), [({"group": ""}, "group"), ({"topic": ""}, "topic"), ({"partition": -1}, "partition")]
)
def test_a_request_that_names_no_partition_is_refused(other: dict[str, Any], field: str) -> None:
    async def scene(mesh: Mesh) -> None:
        with pytest.raises(Invalid) as caught:
            await ask(mesh, 0, api.GetProgressRequest(**{**_fields(), **other}))
        assert caught.value.field == field

    play(scene, 1)


class Other:
    """A replica that answers the same each time."""

    def __init__(self, answer: Progress | BraidError) -> None:
        self.answer = answer
        self.asked: list[api.GetProgressRequest] = []

    async def progress(self, request: api.GetProgressRequest) -> Progress:
        self.asked.append(request)
        if isinstance(self.answer, BraidError):
            raise self.answer
        return self.answer


async def test_a_silent_replica_is_named_unless_another_one_knows() -> None:
    silent, ignorant, knowing = Other(Unavailable("away")), Other(NotFound("no")), Other(Progress(group="g"))
    peers = {"lagmon-1": silent, "lagmon-2": ignorant}
    reads = ProgressReads(lambda *_: None, lambda: peers)
    with pytest.raises(Unavailable, match="lagmon-1 may have read it"):
        await reads.get_progress(ASKED, CALLER)
    peers["lagmon-3"] = knowing
    assert (await reads.get_progress(ASKED, CALLER)).group == "g"
    assert all(each.own_only for other in peers.values() for each in other.asked), "or they ask each other for ever"


def commit(fields: EnvelopeFields) -> Commit:
    return Commit(fields.base, encode(fields).metadata, 5)


def test_an_answer_is_bounded_and_says_so() -> None:
    many = LAG_PROGRESS_SPANS_MAX + 1
    message = progress_message(ASKED, commit(EnvelopeFields(0, done=Ranges.of_offsets(range(1, 2 * many, 2)))))
    assert len(message.done) == LAG_PROGRESS_SPANS_MAX and message.partial
    tried = tuple(Attempts(offset, 1) for offset in range(many))
    message = progress_message(ASKED, commit(EnvelopeFields(0, attempts=tried)))
    assert len(message.retried) == LAG_PROGRESS_SPANS_MAX and message.partial


def test_a_commit_without_an_envelope_tells_its_offset_alone() -> None:
    for metadata in ("", "somebody else's", "b1:damaged"):
        message = progress_message(ASKED, Commit(40, metadata, 5))
        assert (message.committed_offset, message.has_envelope, len(message.done)) == (40, False, 0)
