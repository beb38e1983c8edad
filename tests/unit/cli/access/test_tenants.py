"""Tenants on the command line: manifests, `get tenants`, `delete tenant`, and what one at its quota is told."""

import asyncio
import json
from pathlib import Path

from braid.kernel.ports import QuotaEntity
from tests.unit.cli.access.test_verbs import mesh
from tests.unit.cli.mesh import virtual

ORDERS = "spiffe://braid.local/acme/orders"
MANIFEST = """
apiVersion: braid/v1
kind: Tenant
metadata: {name: acme}
spec:
  principals: ["spiffe://braid.local/acme/*"]
  quotas: {streams: 1, partitions: 8, requests_per_second: 1000}
"""


def test_manifests_of_tenants_are_applied_compared_and_exported(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await mesh()
        file, path = tmp_path / "tenants.yaml", str(tmp_path / "tenants.yaml")
        file.write_text(MANIFEST)
        assert (await shell.braid("apply", "-f", path, "--dry-run")).out == "tenant/acme created (dry run)\n"
        assert (await shell.braid("diff", "-f", path)).code == 1
        assert (await shell.braid("apply", "-f", path)).out == "tenant/acme created\n"
        assert (await shell.braid("apply", "-f", path)).out == "tenant/acme unchanged\n"
        assert await shell.braid("diff", "-f", path) == (0, "", "")
        file.write_text(MANIFEST.replace("streams: 1", "streams: 2"))
        assert "+  streams: 2" in (await shell.braid("diff", "-f", path)).out
        assert (await shell.braid("apply", "-f", path)).out == "tenant/acme changed\n"
        exported = await shell.braid("get", "tenants", "-o", "yaml")
        file.write_text(exported.out)
        assert (await shell.braid("apply", "-f", path)).out == "tenant/acme unchanged\n"
        file.write_text(MANIFEST.replace("streams: 1", "steams: 1"))
        wrong = await shell.braid("apply", "-f", path)
        assert wrong.code == 2 and "streams" in wrong.err

    scenario()


def test_get_tenants_shows_use_and_a_refusal_says_what_to_do(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await mesh()
        path = tmp_path / "tenants.yaml"
        path.write_text(MANIFEST)
        assert (await shell.braid("apply", "-f", str(path))).code == 0
        assert (await shell.braid("grant", "stream-owner", "--to", ORDERS, "--on", "stream/*")).code == 0
        shell.principals["cli"] = ORDERS
        assert (await shell.braid("create", "stream", "pay", "--lane", "live=4")).code == 0
        refused = await shell.braid("create", "stream", "more", "--lane", "live=1")
        assert refused.code != 0
        assert "tenant acme has 1 of its 1 streams: 1 more are too many" in refused.err
        assert "delete streams that nobody needs" in refused.err
        shell.principals["cli"] = "spiffe://braid.local/user/ann"
        rows = [line.split() for line in (await shell.braid("get", "tenants")).out.splitlines()]
        assert rows[1][:4] == ["acme", "1/1", "5/8", "0"]
        assert "spiffe://braid.local/acme/*" in rows[1]
        assert (await shell.braid("events", "--for", "tenants/mesh")).out.count("TenantSet") == 1
        assert (await shell.braid("delete", "tenant", "acme", "--yes")).out == "tenant/acme deleted\n"
        again = await shell.braid("delete", "tenant", "acme", "--yes")
        assert again.code != 0 and "there is no tenant acme" in again.err

    scenario()


BYTES = """
apiVersion: braid/v1
kind: Tenant
metadata: {name: acme}
spec:
  principals: ["spiffe://braid.local/acme/*"]
  kafka_users: [{name: shop}, {name: "CN=web,O=Acme", client_id: batch, clusters: [east], take_over: true}]
  quotas: {producer_bytes_per_second: 1000000, request_percentage: 50}
"""


def test_byte_quotas_are_applied_exported_and_described(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await mesh()
        file, path = tmp_path / "tenants.yaml", str(tmp_path / "tenants.yaml")
        file.write_text(BYTES)
        assert (await shell.braid("apply", "-f", path)).out == "tenant/acme created\n"
        quotas = shell.kafka.named("east").client_quotas
        await asyncio.sleep(3)
        assert {str(entity): values["producer_byte_rate"] for entity, values in quotas.describe(["shop"]).items()} == {
            "user shop": 1_000_000.0
        }
        file.write_text((await shell.braid("get", "tenants", "-o", "yaml")).out)
        assert (await shell.braid("apply", "-f", path)).out == "tenant/acme unchanged\n"
        wide = (await shell.braid("get", "tenants", "-o", "wide")).out
        assert "shop,CN=web,O=Acme" in wide and "1000000" in wide and " applied " in wide
        described = (await shell.braid("describe", "tenant", "acme")).out
        assert "Quotas at Kafka:\n  east  applied" in described
        found = json.loads((await shell.braid("doctor", "-o", "json")).out)["findings"]
        told = [each["message"] for each in found if each["check"] == "kafka quotas"]
        assert len(told) == 1 and told[0].startswith("its quotas of bytes are on ")
        file.write_text(BYTES.replace("name: shop", "name: 'User:shop'"))
        wrong = await shell.braid("apply", "-f", path)
        assert wrong.code == 2 and "spec.kafka_users[0].name" in wrong.err and "write 'shop'" in wrong.err

    scenario()


def test_a_quota_that_is_refused_is_named_everywhere(tmp_path: Path) -> None:
    @virtual
    async def scenario() -> None:
        shell = await mesh()
        shell.kafka.named("east").client_quotas.alter(QuotaEntity("shop"), {"producer_byte_rate": 7})
        path = tmp_path / "tenants.yaml"
        path.write_text(BYTES)
        assert (await shell.braid("apply", "-f", str(path))).code == 0
        await asyncio.sleep(3)
        assert " refused" in (await shell.braid("get", "tenants")).out
        described = (await shell.braid("describe", "tenant", "acme")).out
        assert "refused: user shop has producer_byte_rate 7, which Braid did not set; try: write take_over" in described
        doctor = await shell.braid("doctor")
        assert doctor.code != 0 and "its quotas of bytes are not on cluster east: user shop has" in doctor.out

    scenario()


@virtual
async def test_only_an_admin_declares_tenants() -> None:
    shell = await mesh()
    shell.principals["cli"] = ORDERS
    refused = await shell.braid("delete", "tenant", "acme", "--yes")
    assert refused.code == 4 and "may not change the mesh" in refused.err
    assert (await shell.braid("get", "tenants")).code == 4
