"""Tenants: which principal is in which, and what is refused as a tenant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.access.kafka_users import KafkaUser
from braid.kernel.access.tenants import DEFAULT_TENANT, Quotas, Tenant, TenantFinder, check_pattern, check_tenant
from braid.kernel.errors import Invalid, Unauthenticated
from braid.kernel.limits.access.rights import QUOTA_MAX, TENANT_PRINCIPALS_MAX
from braid.kernel.ports import Caller

ACME = Tenant("acme", ("spiffe://braid.local/acme/*", "dns:acme.example"))
BAKERY = Tenant("bakery", ("spiffe://braid.local/acme/bakery/*", "spiffe://braid.local/acme/shop"))
FINDER = TenantFinder([ACME, BAKERY])


@pytest.mark.parametrize(
    ("principal", "tenant"),
    [
        ("spiffe://braid.local/acme/web", "acme"),
        ("dns:acme.example", "acme"),
        ("dns:acme.example.evil", DEFAULT_TENANT),
        ("spiffe://braid.local/acme/bakery/oven", "bakery"),
        ("spiffe://braid.local/acme/shop", "bakery"),
        ("spiffe://braid.local/acme/shop2", "acme"),
        ("spiffe://braid.local/acme", DEFAULT_TENANT),
        ("spiffe://other/acme/web", DEFAULT_TENANT),
        ("", DEFAULT_TENANT),
    ],
)
def test_the_longest_beginning_decides_which_tenant_it_is(principal: str, tenant: str) -> None:
    assert FINDER.find(principal) == tenant


_NAMES = st.text("ab/", max_size=4).map(lambda text: f"dns:x{text}")


@given(st.lists(st.tuples(_NAMES, st.booleans()), max_size=8, unique=True), _NAMES)
def test_the_finder_agrees_with_a_search_of_all_principals(named: list[tuple[str, bool]], principal: str) -> None:
    tenants = [Tenant(f"t{n}", (f"{text}*" if many else text,)) for n, (text, many) in enumerate(named)]
    fitting = [
        (not many, len(text), f"t{n}")
        for n, (text, many) in enumerate(named)
        if (principal.startswith(text) if many else principal == text)
    ]
    assert TenantFinder(tenants).find(principal) == (max(fitting)[2] if fitting else DEFAULT_TENANT)


@pytest.mark.parametrize("claimed", ["", "default", "acme"])
def test_a_claim_that_agrees_with_the_principal_is_taken(claimed: str) -> None:
    assert FINDER.tenant_of(Caller("dns:acme.example", claimed, "", "host", authenticated=True)) == "acme"


def test_a_claim_of_another_tenant_is_refused() -> None:
    with pytest.raises(Unauthenticated, match=r"claims to be of tenant 'bakery'.*is of acme") as refused:
        FINDER.tenant_of(Caller("dns:acme.example", "bakery", "", "host", authenticated=True))
    assert refused.value.metadata == {"problem": "false_claim"}
    assert refused.value.field == "braid-tenant"


def test_without_a_proof_the_claimed_tenant_counts() -> None:
    assert FINDER.tenant_of(Caller("dns:acme.example", "bakery", "", "host")) == "bakery"
    assert FINDER.tenant_of(Caller("dns:acme.example", "", "", "host")) == DEFAULT_TENANT


@pytest.mark.parametrize(
    ("tenant", "field"),
    [
        (Tenant("a/b"), "name"),
        (Tenant("default", ("dns:x",)), "spec.principals"),
        (Tenant("new", tuple(f"dns:x{n}" for n in range(TENANT_PRINCIPALS_MAX + 1))), "spec.principals"),
        (Tenant("new", ("dns:x", "dns:x")), "spec.principals[1]"),
        (Tenant("new", ("dns:acme.example",)), "spec.principals[0]"),
        (Tenant("new", ("ann",)), "spec.principals[0]"),
        (Tenant("new", quotas=Quotas(streams=-1)), "spec.quotas.streams"),
        (Tenant("new", quotas=Quotas(requests_per_second=QUOTA_MAX + 1)), "spec.quotas.requests_per_second"),
        (Tenant("new", quotas=Quotas(producer_bytes_per_second=1)), "spec.quotas.producer_bytes_per_second"),
        (Tenant("new", quotas=Quotas(request_percentage=1)), "spec.quotas.request_percentage"),
        (Tenant("default", kafka_users=(KafkaUser("shop"),)), "spec.kafka_users"),
        (Tenant("default", quotas=Quotas(request_percentage=1)), "spec.quotas.request_percentage"),
        (
            Tenant("new", quotas=Quotas(consumer_bytes_per_second=-1), kafka_users=(KafkaUser("new"),)),
            "spec.quotas.consumer_bytes_per_second",
        ),
        (
            Tenant("new", quotas=Quotas(producer_bytes_per_second=(1 << 40) + 1), kafka_users=(KafkaUser("new"),)),
            "spec.quotas.producer_bytes_per_second",
        ),
        (
            Tenant("new", quotas=Quotas(request_percentage=100_001), kafka_users=(KafkaUser("new"),)),
            "spec.quotas.request_percentage",
        ),
    ],
)
def test_a_tenant_out_of_form_is_refused_by_its_field(tenant: Tenant, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_tenant(tenant, {"acme": ACME})
    assert refused.value.field == field


def test_a_tenant_may_be_declared_anew_with_its_own_principals() -> None:
    assert check_tenant(ACME, {"acme": ACME, "bakery": BAKERY}) is ACME
    assert check_tenant(Tenant("default", quotas=Quotas(streams=1)), {}).quotas.streams == 1


@pytest.mark.parametrize("text", ["*", "spiffe://*", "spiffe://braid.local*", "sha256:*", "spiffe:///x/*", "dns: *"])
def test_a_beginning_names_a_whole_trust_domain(text: str) -> None:
    with pytest.raises(Invalid):
        check_pattern(text, "spec.principals[0]")


@pytest.mark.parametrize("text", ["spiffe://braid.local/*", "spiffe://braid.local/acme*", "dns:*", "jwt:acme-*"])
def test_a_beginning_in_form_is_taken(text: str) -> None:
    assert check_pattern(text, "spec.principals[0]") == text


def test_only_quotas_that_are_set_go_to_kafka() -> None:
    assert Quotas(streams=3, producer_bytes_per_second=1 << 40, request_percentage=150).of_kafka == {
        "producer_byte_rate": 1 << 40,
        "request_percentage": 150,
    }
    assert not Quotas(streams=3, requests_per_second=5).of_kafka
