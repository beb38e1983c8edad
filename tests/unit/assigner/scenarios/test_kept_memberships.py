"""Memberships of fenced groups: kept while nobody attends, made anew, and asked for slowly."""

import pytest

from braid.kafka.memory.groups import Groups
from braid.kernel.errors import ClusterUnavailable, Fenced
from braid.kernel.limits.assigner.leases import CLUSTER_REACHED_SECONDS, MEMBERSHIP_RENEW_SECONDS
from braid.kernel.ports import Generation
from services.assigner.model.events import FencingWaived
from tests.unit.assigner.mesh import Mesh, Participant
from tests.unit.assigner.scenarios.fenced_groups import bumps, commit, fenced, newest, run


def test_a_group_whose_last_member_died_keeps_its_memberships(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka forgets the progress of a group without members, and lets strays in."""

    async def work() -> None:
        mesh = await fenced(1)
        (only,), groups = mesh.participants, mesh.kafka.named("east").groups
        lent, real = newest(only), groups.renew
        renewed: list[Generation] = []

        def renew(name: str, generation: Generation) -> None:
            renewed.append(generation)
            real(name, generation)

        monkeypatch.setattr(groups, "renew", renew)
        only.kill()
        await mesh.until(lambda: not mesh.state().members)
        await mesh.host.clock.sleep(3 * MEMBERSHIP_RENEW_SECONDS)
        assert renewed[-2:] == [lent, lent]
        Participant(mesh, "web-2", fenced=True, lease_ms=1_000)
        await mesh.settled(1)
        assert newest(mesh.participants[1]).generation == lent.generation + 1

    run(work())


def test_a_membership_ended_while_unattended_is_made_anew() -> None:
    async def work() -> None:
        mesh = await fenced(1)
        groups = mesh.kafka.named("east").groups
        mesh.participants[0].kill()
        await mesh.until(lambda: not mesh.state().members)
        groups.leave("indexer")
        await mesh.until(lambda: groups.state("indexer") == "Stable", 3 * MEMBERSHIP_RENEW_SECONDS)
        await mesh.host.clock.sleep(3 * MEMBERSHIP_RENEW_SECONDS)
        assert len(await bumps(mesh)) == 2

    run(work())


def test_members_reports_before_a_clusters_death_waive_nothing() -> None:
    async def work() -> None:
        mesh = await fenced()
        first, second = mesh.participants
        mesh.kafka.named("east").kill()
        first.kill()
        await mesh.host.clock.sleep(CLUSTER_REACHED_SECONDS)  # so long its last answered commit vouches for the cluster
        second.unreachable.append("east")
        await mesh.host.clock.sleep(10.0)
        assert not [event for event in await mesh.events() if isinstance(event, FencingWaived)]

    run(work())


def test_a_cluster_that_never_knows_its_member_is_asked_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        def forget(self: Groups, name: str, member_id: str) -> Generation:
            joins.append(member_id)
            if len(joins) > 10_000:
                raise ClusterUnavailable("enough")
            raise Fenced("who is that?")

        joins: list[str] = []
        monkeypatch.setattr(Groups, "join_reserved", forget)
        mesh = await Mesh().start()
        Participant(mesh, "web-1", fenced=True)
        await mesh.host.clock.sleep(10.0)
        assert 5 < len(joins) < 60

    run(work())


def test_refusals_that_no_bump_mends_make_few_generations() -> None:
    """A member whose address of a cluster leads to another one is refused whatever it is lent."""

    async def work() -> None:
        mesh = await fenced()
        first, second = mesh.participants

        async def commit_elsewhere() -> None:
            while True:
                await first.session.refused("east", newest(first))
                await mesh.host.clock.sleep(0.01)

        task = mesh.host.tasks.spawn(commit_elsewhere(), "commits elsewhere")
        await mesh.host.clock.sleep(20.0)
        task.cancel()
        assert 2 < len(await bumps(mesh)) < 20
        await commit(mesh, newest(second))

    run(work())
