"""A flood of one lane is answered and undone, on the whole mesh in virtual time; a group beside it answers nothing."""

from pathlib import Path
from typing import Final

import pytest

from braid.api.assigner.v1 import responses_pb2 as pb
from services.assigner.model.lag.response_events import ResponseTaken, ResponseUndone
from services.assigner.policy.responses import shift_shares
from tests.simulation.answering import FLOOD, GROUP, PLAIN, TARGET_SECONDS, AnsweringMesh
from tests.support.virtual_time import run_virtual

SHIFT: Final = pb.ResponsePolicy(kind=pb.RESPONSE_KIND_SHIFT_SHARES, mode=pb.RESPONSE_MODE_AUTOMATIC)
FLOOD_SECONDS: Final = 12.0


async def flooded(mesh: AnsweringMesh, kill: str = "") -> tuple[float, float]:
    """Floods lane bulk, and kills a process when the answer is there; returns when the flood began and ended."""
    begun = mesh.now()
    mesh.rates["bulk"] *= FLOOD
    await mesh.host.clock.sleep(FLOOD_SECONDS)
    if kill:
        assert mesh.responses()
        mesh.kill(kill)
    mesh.rates["bulk"] /= FLOOD
    return begun, mesh.now()


def late(mesh: AnsweringMesh, group: str, since: float) -> list[float]:
    """Moments at which lane live of a group was beyond its target."""
    return [each.at for each in mesh.seen if each.group == group and each.at > since and each.seconds > TARGET_SECONDS]


@pytest.mark.slow
def test_a_flood_is_answered_and_undone_beside_one_left_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        mesh = await AnsweringMesh(tmp_path).begin(SHIFT)
        begun, ended = await flooded(mesh)
        await mesh.eventually(lambda: not mesh.responses(), 60.0)
        answered, left = late(mesh, GROUP, begun), late(mesh, PLAIN, begun)
        assert answered[-1] - answered[0] <= 15.0
        assert left[-1] - left[0] > answered[-1] - answered[0] + 5.0, "the same flood, left alone"
        assert mesh.now() - ended <= 60.0
        (taken,) = [each for each in await mesh.events() if isinstance(each, ResponseTaken)]
        (undone,) = [each for each in await mesh.events() if isinstance(each, ResponseUndone)]
        assert (taken.after, undone.lane) == ((("bulk", 1.0), ("live", 4.0)), "live")
        assert not mesh.failures

    run_virtual(scenario())


@pytest.mark.slow
def test_a_leader_killed_in_a_flood_leaves_the_answer_in_force(tmp_path: Path) -> None:
    async def scenario() -> None:
        mesh = await AnsweringMesh(tmp_path).begin(SHIFT)
        leader = mesh.leading_assigner()
        _, ended = await flooded(mesh, kill=leader)
        await mesh.eventually(lambda: not mesh.responses(mesh.leading_assigner()), 90.0)
        events = [each for each in await mesh.events() if isinstance(each, ResponseTaken | ResponseUndone)]
        assert [type(each) for each in events] == [ResponseTaken, ResponseUndone]
        assert not late(mesh, GROUP, ended + 5.0)

    run_virtual(scenario())


@pytest.mark.slow
def test_a_shift_without_regard_to_pressure_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(shift_shares, "pressing_lanes", lambda facts, lane: [])
        monkeypatch.setattr(shift_shares, "busy_lanes", lambda facts, lane, shares, handlers: [])
        mesh = await AnsweringMesh(tmp_path).begin(SHIFT)
        begun, _ = await flooded(mesh)
        await mesh.host.clock.sleep(10.0)
        answered = late(mesh, GROUP, begun)
        assert answered[-1] - answered[0] > 5.0 and not mesh.responses(), "the checks above would be red"

    run_virtual(scenario())
