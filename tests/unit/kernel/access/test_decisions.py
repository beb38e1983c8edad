"""Decisions on access: roles over resources, patterns, ends, services and first admins; and the texts of refusals."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.access.decisions import decide, grant_command
from braid.kernel.access.grants import Grant, Rights, ServicePrincipals, by_principal, check_principal
from braid.kernel.access.roles import (
    ANYTHING,
    GRANTABLE,
    MESH,
    Action,
    Resource,
    ResourceKind,
    Role,
    check_scope,
    role_allows,
)
from braid.kernel.errors import Invalid
from braid.kernel.limits.names import SPIFFE_ID_BYTES_MAX

ME = "spiffe://braid.local/app/orders"
LOGS = Resource(ResourceKind.STREAM, "logs")
NAMES = st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True)
RESOURCES = st.one_of(
    st.just(MESH), st.builds(Resource, st.sampled_from([kind for kind in GRANTABLE if kind.value != "mesh"]), NAMES)
)
ROLES = st.sampled_from([role for role in Role if role is not Role.SERVICE])


def rights(*grants: Grant, admins: tuple[str, ...] = ()) -> Rights:
    return Rights(by_principal(grants), admins, ServicePrincipals("braid.local", ("dns:console", "dns:job-*")))


@given(st.sampled_from(list(Action)), RESOURCES)
def test_nobody_may_do_anything_by_default(action: Action, resource: Resource) -> None:
    decision = decide(rights(), ME, action, resource, 0)
    assert decision.allowed is (action is Action.CONNECT)


@given(ROLES, RESOURCES, st.sampled_from(list(Action)), RESOURCES)
def test_a_grant_allows_its_role_on_its_resource_alone(
    role: Role, granted: Resource, action: Action, asked: Resource
) -> None:
    decision = decide(rights(Grant(ME, role, granted)), ME, action, asked, 0)
    within = granted in (MESH, asked)
    assert decision.allowed == (action is Action.CONNECT or (within and role_allows(role, action, asked.kind)))
    assert not decide(rights(Grant(ME, role, granted)), "dns:else", Action.VIEW, asked, 0).allowed


@given(st.sampled_from([action for action in Action if action is not Action.SERVE]), RESOURCES)
def test_what_a_refusal_names_as_missing_would_allow_it(action: Action, resource: Resource) -> None:
    refused = decide(rights(), ME, action, resource, 0)
    if refused.allowed or refused.missing is None:
        assert action is Action.CONNECT or not any(role_allows(role, action, resource.kind) for role in Role)
        return
    assert decide(rights(refused.missing), ME, action, resource, 0).allowed


def test_an_admin_may_do_all_but_what_services_ask() -> None:
    admin = rights(Grant(ME, Role.ADMIN, MESH))
    assert all(decide(admin, ME, action, MESH, 0).allowed for action in Action if action is not Action.SERVE)
    refused = decide(admin, ME, Action.SERVE, MESH, 0)
    assert (refused.allowed, refused.missing) == (False, None)
    assert refused.why == f"{ME} may not serve the mesh: only services of the mesh may"


def test_an_admin_of_the_settings_needs_no_grant() -> None:
    assert decide(rights(admins=(ME,)), ME, Action.GRANT, MESH, 0).why == f"{ME} is an admin by the services' settings"
    assert not decide(rights(), ME, Action.GRANT, MESH, 0).allowed


@pytest.mark.parametrize(
    ("principal", "service"),
    [
        ("spiffe://braid.local/service/registry-0", True),
        ("spiffe://braid.local/service/", False),
        ("spiffe://braid.local/service", False),
        ("spiffe://braid.local/servicex/registry-0", False),
        ("spiffe://braid.local/app/service/x", False),
        ("spiffe://elsewhere/service/registry-0", False),
        ("spiffe://braid.local.evil/service/registry-0", False),
        ("dns:console", True),
        ("dns:console2", False),
        ("dns:job-7", True),
        ("", False),
    ],
)
def test_a_service_is_known_by_its_name_in_the_domain(principal: str, service: bool) -> None:
    assert decide(rights(), principal, Action.SERVE, MESH, 0).allowed is service


def test_without_a_trust_domain_no_spiffe_id_is_a_service() -> None:
    assert not ServicePrincipals().includes("spiffe:///service/x")


def test_a_grant_ends_at_its_time() -> None:
    held = rights(Grant(ME, Role.PRODUCER, LOGS, expire_ms=1_000))
    assert decide(held, ME, Action.PRODUCE, LOGS, 999).allowed
    ended = decide(held, ME, Action.PRODUCE, LOGS, 1_000)
    assert ended.why == f"{ME} may not produce stream/logs: its grant as producer on stream/logs has ended"
    assert (
        ended.missing is not None and grant_command(ended.missing) == f"braid grant producer --to {ME} --on stream/logs"
    )


def test_a_pattern_covers_what_begins_so_and_not_all() -> None:
    team = Resource(ResourceKind.STREAM, "pay-*")
    assert team.covers(Resource(ResourceKind.STREAM, "pay-in"))
    assert not team.covers(Resource(ResourceKind.STREAM, "pay"))
    assert not team.covers(Resource(ResourceKind.GROUP, "pay-in"))
    assert not team.covers(Resource(ResourceKind.STREAM, "*")), "every stream is more than those"
    assert Resource(ResourceKind.STREAM, "*").covers(Resource(ResourceKind.STREAM, "*"))
    assert not LOGS.covers(Resource(ResourceKind.STREAM, "*"))
    assert not team.covers(MESH)


def test_anything_is_allowed_to_who_may_on_something() -> None:
    held = rights(Grant(ME, Role.CONSUMER, Resource(ResourceKind.GROUP, "indexer")))
    assert decide(held, ME, Action.CONSUME, ANYTHING, 0).allowed
    assert not decide(held, ME, Action.OPERATE, ANYTHING, 0).allowed


@pytest.mark.parametrize("text", ["topic/logs", "stream", "stream/", "mesh/x", "stream/Logs", "stream/a*b", "replay/1"])
def test_a_resource_out_of_form_is_refused(text: str) -> None:
    with pytest.raises(Invalid) as refused:
        Resource.parse(text, "resource")
    assert refused.value.field == "resource"


@given(RESOURCES)
def test_a_resource_is_read_as_it_is_written(resource: Resource) -> None:
    assert Resource.parse(str(resource), "resource") == resource
    assert Resource.parse("", "resource") == MESH


@pytest.mark.parametrize(
    "text",
    [
        "",
        "orders",
        "spiffe://",
        "spiffe://braid.local",
        "spiffe://braid.local/",
        "dns:",
        "dns:a b",
        "dns:\x07",
        "dns:ü",
    ],
)
def test_a_principal_out_of_form_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="is no principal"):
        check_principal(text, "principal")


def test_a_principal_that_is_too_long_is_refused() -> None:
    assert check_principal("dns:" + "a" * (SPIFFE_ID_BYTES_MAX - 4), "p")
    with pytest.raises(Invalid):
        check_principal("dns:" + "a" * (SPIFFE_ID_BYTES_MAX - 3), "p")


@pytest.mark.parametrize(
    ("role", "where", "remedy"),
    [
        (Role.ADMIN, "stream/logs", "grant it on the whole mesh"),
        (Role.PRODUCER, "group/indexer", "grant it on stream/NAME or the whole mesh"),
        (Role.STREAM_OWNER, "cluster/east", "grant it on stream/NAME or the whole mesh"),
    ],
)
def test_a_role_is_refused_where_it_says_nothing(role: Role, where: str, remedy: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_scope(role, Resource.parse(where, "resource"), "resource")
    assert refused.value.remedy == remedy


def test_the_role_of_services_is_not_granted() -> None:
    with pytest.raises(Invalid, match="is no role that can be granted"):
        Role.parse("service", "role")
    assert Role.parse("stream-owner", "role") is Role.STREAM_OWNER
