"""`certs revoke`, `get revocations`, and what they mean to an application that runs."""

import asyncio
import json
from datetime import timedelta
from pathlib import Path

import pytest

from braid.client.records.record import Record
from braid.kernel.access.grants import ServicePrincipals
from braid.kernel.errors import IdentityRevoked
from braid.runtime.access.settings import AccessMode, AccessSettings
from testbed.authority import Authority
from tests.unit.cli.mesh import Shell, virtual
from tests.unit.cli.resources.dlq.test_rejected import user

ANN = "spiffe://braid.local/user/ann"
BOB = "spiffe://braid.local/user/bob"
ORDERS = "spiffe://braid.local/app/orders"
DIGITS = "0123456789abcdef" * 4
OPEN = AccessSettings(AccessMode.OPEN, (ANN,), services=ServicePrincipals("braid.local"))


async def mesh() -> Shell:
    """A mesh that lets everybody do everything; an admin types."""
    shell = Shell()
    shell.access = OPEN
    names = {name: f"spiffe://braid.local/service/{name}" for name in ("registry-0", "assigner-0")}
    shell.principals |= {"cli": ANN, **names}
    await shell.start("east")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    await asyncio.sleep(2.0)
    return shell


@virtual
async def test_a_principal_is_revoked_listed_and_lifted() -> None:
    shell = await mesh()
    dry = await shell.braid("certs", "revoke", BOB, "--dry-run")
    assert dry == (0, f"{BOB} is revoked: every service refuses it (dry run: nothing was changed)\n", "")
    assert not (await shell.braid("get", "revocations", "-o", "name")).out.strip()
    done = await shell.braid("certs", "revoke", BOB, "--reason", "left the team")
    assert done == (0, f"{BOB} is revoked: every service refuses it\n", "")
    assert await shell.braid("certs", "revoke", BOB, "--reason", "left the team") == done, "again changes nothing"
    asked = await shell.braid("can-i", "view", "stream", "logs", "--as", BOB)
    assert (asked.code, asked.out) == (1, f"no: {BOB} was revoked: left the team\n")
    shell.principals["cli"] = BOB
    refused = await shell.braid("get", "streams")
    assert refused.code == 4
    assert f"{BOB} was revoked: left the team" in refused.err and "try: ask an admin why" in refused.err
    shell.principals["cli"] = ANN
    rows = [line.split() for line in (await shell.braid("get", "revocations", "-o", "wide")).out.splitlines()]
    assert rows[1][:6] == [BOB, "-", "left", "the", "team", "-"] and ANN in rows[1]
    lifted = await shell.braid("certs", "revoke", BOB, "--lift", "--reason", "is back")
    assert lifted == (0, f"{BOB} is accepted again\n", "")
    again = await shell.braid("certs", "revoke", BOB, "--lift")
    assert again.code == 4 and f"{BOB} is not revoked" in again.err
    shell.principals["cli"] = BOB
    assert (await shell.braid("get", "streams")).code == 0
    told = json.loads((await shell.braid("events", "--for", "revocations/mesh", "-o", "json")).out)["items"]
    assert [each["type"] for each in told] == ["IdentityRevoked", "RevocationLifted"]
    assert {each["metadata"]["actor"] for each in told} == {ANN}


def test_a_certificate_is_revoked_by_its_file_and_by_its_digits(tmp_path: Path) -> None:
    authority = Authority.make()
    file = authority.write(tmp_path, uris=[ORDERS], lifetime=timedelta(days=7)).certificate

    @virtual
    async def scenario() -> None:
        shell = await mesh()
        done = await shell.braid("certs", "revoke", "--certificate", str(file), "--reason", "stolen")
        first, second = done.out.splitlines()
        assert first.startswith("sha256:") and first.endswith(f" of {ORDERS} is revoked: every service refuses it")
        assert second.startswith("  the certificate ends by itself at ")
        typed = ":".join(DIGITS[n : n + 2].upper() for n in range(0, 64, 2))
        assert (await shell.braid("certs", "revoke", f"sha256:{typed}")).code == 0
        assert (await shell.braid("certs", "revoke", "serial:0A", "--ends", "2200-01-01")).code == 0
        rows = [line.split() for line in (await shell.braid("get", "revocations")).out.splitlines()]
        assert rows[0] == ["NAME", "PRINCIPAL", "REASON", "ENDS", "AGE"]
        assert {row[0] for row in rows[1:]} == {"serial:a", f"sha256:{DIGITS}", first.split()[0]}
        assert (await shell.braid("get", "revocations", "serial:a", "-o", "name")).out == "revocation/serial:a\n"
        lifted = await shell.braid("certs", "revoke", "--certificate", str(file), "--lift")
        assert lifted.out.endswith(f" of {ORDERS} is accepted again\n")

    scenario()


@virtual
async def test_locking_out_oneself_an_admin_or_service_is_confirmed() -> None:
    shell = await mesh()
    refused = await shell.braid("certs", "revoke", ANN)
    assert refused.code == 2 and "this is no terminal, so nobody can confirm" in refused.err
    assert "it is what you call with" in refused.err and "it is the last admin" in refused.err
    service = await shell.braid("certs", "revoke", "spiffe://braid.local/service/lagmon-0")
    assert service.code == 2 and "it is a service" in service.err
    assert not (await shell.braid("get", "revocations", "-o", "name")).out.strip()
    assert (await shell.braid("certs", "revoke", "spiffe://braid.local/service/lagmon-0", "--yes")).code == 0
    assert (await shell.braid("grant", "admin", "--to", BOB)).code == 0
    first = await shell.braid("certs", "revoke", ANN, "--dry-run")
    assert "it is what you call with" in first.err and "last admin" not in first.err
    assert (await shell.braid("certs", "revoke", ANN, "--yes")).code == 0
    assert (await shell.braid("get", "streams")).code == 4
    shell.principals["cli"] = BOB
    last = await shell.braid("certs", "revoke", BOB, "--dry-run")
    assert "it is the last admin" in last.err, "those that are revoked do not count"


@virtual
async def test_only_an_admin_with_a_certificate_may() -> None:
    shell = await mesh()
    shell.principals["cli"] = BOB
    refused = await shell.braid("certs", "revoke", ORDERS)
    assert refused.code == 4 and f"braid grant admin --to {BOB}" in refused.err
    del shell.principals["cli"]
    nobody = await shell.braid("certs", "revoke", ORDERS)
    assert nobody.code == 4 and "try: connect by mutual TLS" in nobody.err


def test_what_is_typed_wrong_is_refused_before_the_mesh_is_asked(tmp_path: Path) -> None:
    authority = Authority.make()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    (tmp_path / "nothing.pem").write_text("nothing")
    ended = authority.write(tmp_path / "ended", uris=[ORDERS], lifetime=timedelta(days=-399)).certificate

    @virtual
    async def scenario() -> None:
        shell = Shell()
        for arguments, said in (
            ((), "name it, or give --certificate"),
            ((ORDERS, "--certificate", "x.pem"), "name it, or give --certificate"),
            (("bob",), "'bob' is no identity"),
            (("sha256:12",), "serial:NUMBER in hexadecimal"),
            (("serial:1", "--ends", "soon"), "--ends"),
            (("--certificate", str(tmp_path / "missing.pem")), "check the path"),
            (("--certificate", str(tmp_path / "nothing.pem")), "holds no PEM certificate"),
            (("--certificate", str(tmp_path / "ca.pem")), "is the certificate of an authority"),
        ):
            result = await shell.braid("certs", "revoke", *arguments)
            assert result.code == 2 and said in result.err, arguments
        shell = await mesh()
        over = await shell.braid("certs", "revoke", "--certificate", str(ended))
        assert over.code in (2, 4) and "the certificate has ended already" in over.err

    scenario()


@virtual
async def test_a_revoked_application_is_told_and_its_leases_move() -> None:
    shell = await mesh()
    shell.principals |= {"stolen": ORDERS, "honest": BOB}
    by: dict[str, list[bytes]] = {"stolen": [], "honest": []}

    async def handle(name: str, record: Record) -> None:
        by[name].append(record.value or b"")

    async with (
        user(shell, "stolen") as stolen,
        user(shell, "honest") as honest,
        stolen.producer("logs") as producer,
        stolen.consumer(["logs"], group="g", start="earliest") as one,
        honest.consumer(["logs"], group="g", start="earliest") as other,
        honest.producer("logs") as sender,
    ):
        running = [
            asyncio.ensure_future(one.run(lambda record: handle("stolen", record))),
            asyncio.ensure_future(other.run(lambda record: handle("honest", record))),
        ]
        await shell.until(lambda: len(one.leases()) == len(other.leases()) == 1)
        await producer.send(b"before")
        clock = shell.me.host.clock
        revoked_at = clock.elapsed()
        assert (await shell.braid("certs", "revoke", ORDERS, "--reason", "stolen")).code == 0
        await shell.until(lambda: len(other.leases()) == 2)
        assert clock.elapsed() - revoked_at < 2.0, "as soon as a member leaves, and no lease time later"
        async with asyncio.timeout(5):
            with pytest.raises(IdentityRevoked, match=f"{ORDERS} was revoked: stolen"):
                await running[0]
            with pytest.raises(IdentityRevoked):
                while True:
                    await producer.send(b"after")
                    await asyncio.sleep(0.05)
        for number in range(8):
            await sender.send(b"honest %d" % number, key=b"%d" % number)
        await shell.until(lambda: sum(each.startswith(b"honest") for each in by["honest"]) == 8)
        assert not running[1].done()
        running[1].cancel()
