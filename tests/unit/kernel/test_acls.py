"""Which Kafka ACLs each role needs: names of topics and groups as Braid makes them, bad input by its option."""

import pytest

from braid.kernel.acls import AclScope, acls_of, check_principal
from braid.kernel.errors import Invalid
from braid.kernel.ids import ChannelId


def granted(role: str, scope: AclScope) -> set[tuple[str, str, str]]:
    """Operation, pattern and name of what is given."""
    return {(acl.operation, acl.pattern, acl.name) for acl in acls_of(role, scope)}


def test_a_producer_writes_to_its_streams_and_to_nothing_else() -> None:
    assert granted("producer", AclScope(streams=["orders", "orders"])) == {
        ("Write", "Prefixed", "braid.orders."),
        ("DescribeConfigs", "Prefixed", "braid.orders."),
    }
    lanes = granted("producer", AclScope(streams=["orders"], lanes=["live", "bulk"], topic_prefix="eu."))
    assert {name for _, _, name in lanes} == {"eu.orders.live.", "eu.orders.bulk."}
    assert {name for _, _, name in granted("producer", AclScope())} == {"braid."}


def test_a_consumer_reads_its_lanes_and_writes_only_dead_letters() -> None:
    found = granted("consumer", AclScope(streams=["orders"], lanes=["live"], groups=["billing", "audit"]))
    assert ("Read", "Prefixed", "braid.orders.live.") in found
    assert {name for operation, _, name in found if operation == "Write"} == {"braid.orders.dlq.", "braid-progress"}
    assert {("Read", "Literal", "billing"), ("Read", "Literal", "audit")} <= found
    assert not any(operation in ("Delete", "Alter", "AlterConfigs") for operation, _, _ in found)


def test_a_reader_reads_its_lanes_and_may_do_nothing_else() -> None:
    assert granted("reader", AclScope(streams=["orders"], lanes=["live"])) == {
        ("Read", "Prefixed", "braid.orders.live.")
    }
    assert granted("reader", AclScope()) == {("Read", "Prefixed", "braid.")}


def test_a_stream_is_given_and_one_with_a_longer_name_is_not() -> None:
    [name] = {acl.name for acl in acls_of("producer", AclScope(streams=["orders"]))}
    assert ChannelId("orders", "live", 7).topic("braid.").startswith(name)
    assert not ChannelId("orders-eu", "live", 7).topic("braid.").startswith(name)


def test_services_get_the_groups_that_are_named_and_their_own() -> None:
    everywhere = {acl.name for acl in acls_of("service", AclScope()) if acl.resource == "Group"}
    named = {(acl.pattern, acl.name) for acl in acls_of("service", AclScope(groups=["billing"])) if "Group" in acl}
    assert everywhere == {"*"}
    assert named == {("Literal", "billing"), ("Prefixed", "braid-")}


def test_services_get_alter_on_the_cluster_only_to_change_copies() -> None:
    def on_the_cluster(*, change_copies: bool) -> set[str]:
        acls = acls_of("service", AclScope(change_copies=change_copies))
        return {acl.operation for acl in acls if acl.resource == "Cluster"}

    assert on_the_cluster(change_copies=False) == {"Describe", "DescribeConfigs"}
    assert on_the_cluster(change_copies=True) == {"Alter", "AlterConfigs"}


@pytest.mark.parametrize(
    ("scope", "operations"),
    [
        (AclScope(set_quotas=True), {"Describe", "AlterConfigs"}),
        (AclScope(set_quotas=True, change_copies=True), {"Alter", "AlterConfigs"}),
    ],
)
def test_services_get_alter_configs_on_the_cluster_to_set_quotas(scope: AclScope, operations: set[str]) -> None:
    found = [acl for acl in acls_of("service", scope) if acl.resource == "Cluster"]
    assert {acl.operation for acl in found} == operations and len(found) == len(operations)
    assert any("set quotas of tenants' users" in acl.reason for acl in found)
    with pytest.raises(Invalid) as refused:
        acls_of("producer", AclScope(set_quotas=True))
    assert refused.value.field == "--set-quotas"


@pytest.mark.parametrize("role", ["producer", "consumer", "reader", "service"])
def test_no_acl_is_listed_twice_or_without_a_reason(role: str) -> None:
    acls = acls_of(role, AclScope(groups=["billing"] if role in ("consumer", "service") else []))
    assert len({acl[:4] for acl in acls}) == len(acls)
    assert all(acl.reason for acl in acls)


@pytest.mark.parametrize(
    ("role", "scope", "field"),
    [
        ("owner", AclScope(), "--role"),
        ("", AclScope(), "--role"),
        ("producer", AclScope(streams=["Orders"]), "--stream"),
        ("producer", AclScope(streams=["*"]), "--stream"),
        ("producer", AclScope(lanes=["live"]), "--lane"),
        ("producer", AclScope(groups=["billing"]), "--group"),
        ("reader", AclScope(groups=["billing"]), "--group"),
        ("reader", AclScope(change_copies=True), "--change-copies"),
        ("consumer", AclScope(streams=["orders"]), "--group"),
        ("consumer", AclScope(groups=["a b"]), "--group"),
        ("consumer", AclScope(groups=["billing"], change_copies=True), "--change-copies"),
        ("service", AclScope(streams=["orders"]), "--stream"),
        ("service", AclScope(topic_prefix=""), "--topic-prefix"),
        ("service", AclScope(topic_prefix="*"), "--topic-prefix"),
    ],
)
def test_what_is_out_of_form_is_refused_by_its_option(role: str, scope: AclScope, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        acls_of(role, scope)
    assert refused.value.field == field and refused.value.remedy


def test_a_principal_is_a_user_with_or_without_saying_so() -> None:
    assert check_principal("shop") == check_principal("User:shop") == "User:shop"
    assert check_principal("User:CN=shop,O=Example Inc") == "User:CN=shop,O=Example Inc"
    for text in ("", "User:", "Group:shop", "User:a\nb", " shop"):
        with pytest.raises(Invalid) as refused:
            check_principal(text)
        assert refused.value.field == "--principal"
