"""The service in a whole mesh on virtual time: its index across faults of clusters, its replays across crashes."""

from pathlib import Path

import pytest

from braid.api.assigner.v1 import assigner_service_pb2 as assigner_api
from braid.api.assigner.v1 import group_pb2
from braid.api.dlq.v1 import dlq_service_pb2 as api
from braid.api.dlq.v1.dead_letter_pb2 import DEAD_LETTER_STATE_PARKED, DEAD_LETTER_STATE_REPLAYED
from braid.api.registry.v1 import registry_service_pb2 as registry_api
from braid.api.registry.v1 import stream_pb2
from braid.kernel.errors import ClusterUnavailable, NotFound
from braid.kernel.ports import TopicPartition
from tests.unit.dlq.mesh import Mesh
from tests.unit.dlq.scenarios.replay_scenes import over, play

DLQ = TopicPartition("braid.logs.dlq.1", 0)


def test_letters_are_listed_newest_first_and_read_in_full(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(25)
        await mesh.indexed(25)
        told = await mesh.letters("id='01ARZ:7' or attempts>3")
        assert [each.origin.id for each in told.letters] == ["01ARZ:7"]
        first = await mesh.dlq.unary(
            "ListDeadLetters", api.ListDeadLettersRequest(page_size=10), api.ListDeadLettersResponse
        )
        request = api.ListDeadLettersRequest(page_size=20, page_token=first.next_page_token)
        second = await mesh.dlq.unary("ListDeadLetters", request, api.ListDeadLettersResponse)
        ids = [each.origin.id for each in (*first.letters, *second.letters)]
        assert ids == [f"01ARZ:{number}" for number in reversed(range(25))]
        assert (second.next_page_token, first.total) == ("", 25)
        found = await mesh.letter(told.letters[0].name)
        assert (found.value, found.key) == (b"value 7", b"key")
        with pytest.raises(NotFound, match="keeps them for 168 h"):
            await mesh.letter("logs/1/0/99")
        with pytest.raises(NotFound, match="no stream"):
            await mesh.letter("nothing/1/0/99")

    play(tmp_path, scene)


@pytest.mark.parametrize("filter", ["attempts<9", "message!=x", ""])
def test_a_list_that_takes_too_long_says_so_and_pages_hold_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filter: str
) -> None:
    monkeypatch.setattr("services.dlq.servicer.letters.DLQ_SCAN_ROWS", 4)
    monkeypatch.setattr("services.dlq.servicer.letters.DLQ_SCAN_SECONDS", 0.0)

    async def scene(mesh: Mesh) -> None:
        await mesh.park(25)
        await mesh.indexed(25)
        ids: list[str] = []
        request = api.ListDeadLettersRequest(filter=filter, page_size=3, stream="logs")
        while True:
            page = await mesh.dlq.unary("ListDeadLetters", request, api.ListDeadLettersResponse)
            ids += [each.origin.id for each in page.letters]
            assert len(ids) <= page.total <= 25
            assert page.total == 25 or page.total_incomplete
            if not page.next_page_token:
                break
            request.page_token = page.next_page_token
        assert ids == [f"01ARZ:{number}" for number in reversed(range(25))]
        assert (page.total, page.total_incomplete) == (25, False)

    play(tmp_path, scene)


def test_replayed_letters_are_listed_and_read_with_their_state(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(3)
        await mesh.indexed(3)
        assert {each.state for each in (await mesh.letters()).letters} == {DEAD_LETTER_STATE_PARKED}
        await over(mesh, (await mesh.replay(filter="id='01ARZ:1'")).id)
        states = {each.name: each.state for each in (await mesh.letters()).letters}
        replayed = [name for name, state in states.items() if state == DEAD_LETTER_STATE_REPLAYED]
        assert len(replayed) == 1 and len(states) == 3
        assert (await mesh.letter(replayed[0])).letter.state == DEAD_LETTER_STATE_REPLAYED

    play(tmp_path, scene)


def test_the_index_equals_the_log_whatever_happens_to_the_log(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(10)
        await mesh.indexed(10)
        mesh.kafka.named("east").expire(DLQ, 4)
        await mesh.indexed(6)
        mesh.kafka.named("east").truncate(DLQ, 8)
        await mesh.indexed(4)
        await mesh.park(1, first=50)
        await mesh.indexed(5)

    play(tmp_path, scene)


def test_undecodable_copies_and_their_neighbours_are_listed(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(1)
        mesh.kafka.named("east").log(DLQ).damaged[1] = "decompression bomb"
        await mesh.park(1, first=1)
        await mesh.park(1, first=2)
        await mesh.indexed(3)
        quarantined = [each for each in (await mesh.letters()).letters if each.quarantine]
        assert [(each.name, each.quarantine) for each in quarantined] == [("logs/1/0/1", "decompression bomb")]
        with pytest.raises(NotFound):
            await mesh.letter("logs/1/0/1")
        done = await over(mesh, (await mesh.replay()).id)
        assert (done.status.sent, done.status.skipped) == (2, 1)

    play(tmp_path, scene)


def test_a_dead_cluster_is_told_and_its_letters_stay_listed(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(3)
        await mesh.indexed(3)
        name = (await mesh.letters()).letters[0].name
        mesh.kafka.named("east").kill()

        async def told() -> bool:
            return list((await mesh.letters()).catching_up) == ["east"]

        await mesh.until(told)
        assert (await mesh.letters()).total == 3
        with pytest.raises(ClusterUnavailable, match=f"{name} lies on cluster east, which does not answer") as raised:
            await mesh.letter(name)
        assert raised.value.remedy.startswith("it is kept there")
        mesh.kafka.named("east").start()
        await mesh.indexed(3)
        assert (await mesh.letter(name)).value == b"value 2"

    play(tmp_path, scene)


def test_a_drain_awaits_the_index_and_lists_both_generations(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.park(3)
        await mesh.move_letters()
        await mesh.park(2, first=10)
        await mesh.indexed(5)
        assert {each.cluster for each in (await mesh.letters()).letters} == {"east", "west"}

    play(tmp_path, scene)


def test_the_group_follows_streams_and_deleted_streams_rows_go(tmp_path: Path) -> None:
    async def scene(mesh: Mesh) -> None:
        await mesh.create("bills")
        await mesh.park(2)
        await mesh.park(3, stream="bills")
        await mesh.indexed(5)
        assigner = mesh.client.service("assigner")

        async def subscribed() -> bool:
            request = assigner_api.GetGroupRequest(name="braid-dlq")
            group = await assigner.unary("GetGroup", request, group_pb2.Group)
            return list(group.spec.streams) == ["bills", "logs"]

        await mesh.until(subscribed)
        request = registry_api.DeleteStreamRequest(name="bills")
        await mesh.client.service("registry").unary("DeleteStream", request, stream_pb2.Stream)
        await mesh.until(lambda: _total(mesh, 2), 120)

    play(tmp_path, scene)


async def _total(mesh: Mesh, count: int) -> bool:
    return (await mesh.letters()).total == count
