"""Members with certificates: nobody else comes back as them, and streams that end in time move nothing."""

import pytest

from braid.kernel.errors import Unauthenticated
from services.assigner.model.events import LeasesReleased, MemberGone, RevokesStarted
from tests.unit.assigner.mesh import Mesh, Participant, Wire, granted
from tests.unit.assigner.servicer.calls import run

ALICE, BOB = "spiffe://test.local/app/alice", "spiffe://test.local/app/bob"


@pytest.mark.parametrize("stranger", [BOB, ""], ids=["another", "none"])
def test_a_member_is_resumed_by_its_own_principal_alone(stranger: str) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        alice = Wire(mesh, "alice", ALICE)
        welcome = await alice.hello()
        held = granted(await alice.next("delta"))
        assert mesh.state().members[welcome.member_id].principal == ALICE
        with pytest.raises(Unauthenticated, match=f"joined as {ALICE}") as refused:
            await Wire(mesh, "stranger", stranger).hello(member_id=welcome.member_id)
        assert refused.value.field == "hello.member_id"
        await alice.beat()
        await alice.next("heartbeat")
        again = await Wire(mesh, "alice-2", ALICE).hello(member_id=welcome.member_id)
        assert again.member_id == welcome.member_id
        assert len(held) == 4

    run(scenario())


def test_a_strangers_hello_does_not_keep_a_member_alive() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        alice = Wire(mesh, "alice", ALICE)
        welcome = await alice.hello()
        joined_at, refused = mesh.host.clock.elapsed(), 0
        while welcome.member_id in mesh.state().members:
            assert mesh.host.clock.elapsed() < joined_at + 4.0, "the member outlived its lease time"
            with pytest.raises(Unauthenticated):
                await Wire(mesh, "bob", BOB).hello(member_id=welcome.member_id)
            refused += 1
            await mesh.host.clock.sleep(0.7)
        assert refused > 3

    run(scenario())


def test_a_member_without_a_certificate_may_come_back_with_one() -> None:
    """This lets a running mesh and its clients change over to mutual TLS."""

    async def scenario() -> None:
        mesh = await Mesh().start()
        welcome = await Wire(mesh, "plain").hello()
        again = await Wire(mesh, "alice", ALICE).hello(member_id=welcome.member_id)
        assert again.member_id == welcome.member_id
        assert mesh.state().members[again.member_id].principal == ALICE

    run(scenario())


@pytest.mark.parametrize("exclusive", [False, True], ids=["at_least_once", "exclusive"])
def test_streams_that_end_in_time_move_no_lease(exclusive: bool) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        members = [
            Participant(mesh, f"web-{number}", lease_ms=3_000, exclusive=exclusive, identity=ALICE) for number in (1, 2)
        ]
        await mesh.settled(2)
        held, before = [dict(each.holds) for each in members], len(await mesh.events())
        for _ in range(3):
            for each in members:
                mesh.network.expire(each.client_id)
            await mesh.host.clock.sleep(4.0)  # longer than a lease
        assert [each.holds for each in members] == held
        moved = [each for each in (await mesh.events())[before:] if isinstance(each, LeasesReleased | RevokesStarted)]
        assert not moved

    run(scenario())


def test_a_member_that_does_not_open_its_stream_again_expires() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        alice = Wire(mesh, "alice", ALICE)
        welcome = await alice.hello()
        mesh.network.expire("alice")
        await mesh.until(lambda: welcome.member_id not in mesh.state().members, 10.0)
        assert any(isinstance(each, MemberGone) for each in await mesh.events())

    run(scenario())


@pytest.mark.parametrize("shown", [b"", b"x" * 16, b"short", b"x" * 1_000], ids=["none", "another", "short", "long"])
@pytest.mark.parametrize("moved", [False, True], ids=["same-leader", "new-leader"])
def test_who_comes_back_shows_the_secret_of_the_first_welcome(shown: bytes, moved: bool) -> None:
    async def scenario() -> None:
        mesh = await Mesh().start(2 if moved else 1)
        web = Wire(mesh, "web", ALICE)
        welcome = await web.hello(capabilities=["secret"])
        assert len(welcome.resume_secret) == 16
        digest = mesh.state().members[welcome.member_id].secret_digest
        assert digest
        assert welcome.resume_secret.hex() not in digest
        if moved:
            mesh.processes[(await mesh.leader()).instance].kill()
            await mesh.leader()
        with pytest.raises(Unauthenticated) as refused:
            await Wire(mesh, "namesake", ALICE).hello(
                member_id=welcome.member_id, capabilities=["secret"], resume_secret=shown
            )
        assert refused.value.field == "hello.resume_secret"
        again = await Wire(mesh, "web-2", ALICE).hello(
            member_id=welcome.member_id, capabilities=["secret"], resume_secret=welcome.resume_secret
        )
        assert (again.member_id, again.resume_secret) == (welcome.member_id, b"")
        assert mesh.state().members[welcome.member_id].secret_digest == digest

    run(scenario())


def test_an_older_releases_member_returns_without_a_secret() -> None:
    async def scenario() -> None:
        mesh = await Mesh().start()
        welcome = await Wire(mesh, "old", ALICE).hello()
        assert not welcome.resume_secret
        again = await Wire(mesh, "newer", ALICE).hello(member_id=welcome.member_id, capabilities=["secret"])
        assert (again.member_id, again.resume_secret) == (welcome.member_id, b"")
        assert not mesh.state().members[welcome.member_id].secret_digest

    run(scenario())


def test_a_removed_member_returns_with_the_secret_it_has() -> None:
    """A welcome that was lost would leave it else with a secret that nobody takes."""

    async def scenario() -> None:
        mesh = await Mesh().start()
        secret, member = b"s" * 16, "01JD0000000000000000000000"
        for name in ("web", "web-2"):
            welcome = await Wire(mesh, name).hello(member_id=member, capabilities=["secret"], resume_secret=secret)
            assert not welcome.resume_secret
        with pytest.raises(Unauthenticated):
            await Wire(mesh, "other").hello(member_id=member, capabilities=["secret"])

    run(scenario())
