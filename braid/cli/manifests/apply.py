"""The work of `apply` and `diff`: the mesh computes the effect of a declaration, which is then compared."""

import difflib
from collections.abc import Sequence
from typing import Final, NamedTuple

from braid.api.registry.v1 import approval_pb2 as approval_api
from braid.api.registry.v1 import grant_pb2 as grant_api
from braid.api.registry.v1 import registry_service_pb2 as api
from braid.api.registry.v1.approval_pb2 import ApprovalPolicySpec
from braid.api.registry.v1.cluster_pb2 import Cluster
from braid.api.registry.v1.grant_pb2 import GrantSpec
from braid.api.registry.v1.stream_pb2 import Stream, StreamSpec
from braid.api.registry.v1.tenant_pb2 import SetTenantRequest, Tenant, TenantSpec
from braid.cli.core.documents import to_document
from braid.cli.core.lists import all_tenants
from braid.cli.core.output import Format, render_document
from braid.cli.core.session import Session
from braid.cli.errors import EXIT_DIFFERENT
from braid.cli.manifests.cluster_warnings import cluster_warnings
from braid.cli.manifests.declarations import Declared, Spec
from braid.cli.manifests.stream_warnings import stream_warnings
from braid.kernel.errors import BraidError, Conflict, NotFound
from braid.kernel.limits.names import PAGE_SIZE_MAX

_ATTEMPTS: Final = 5  # a stream's etag changes whenever one of its channels moves on


class Outcome(NamedTuple):
    """A declaration and its effect. `before` is None if the object does not exist yet."""

    declared: Declared
    before: Spec | None
    after: Spec
    checked: bool = True

    @property
    def verb(self) -> str:
        """`created`, `changed` or `unchanged`."""
        if self.before is None:
            return "created"
        return "unchanged" if self.before == self.after else "changed"


async def apply_manifests(session: Session, declared: Sequence[Declared], dry_run: bool) -> int:
    """Applies declarations one after the other and prints each result; stops at the first that is refused."""
    planned: set[str] = set()
    for each in declared:
        outcome = await _apply(session, each, dry_run, planned)
        suffix = " (dry run)" if dry_run else ""
        if not outcome.checked:
            suffix = " (dry run; checked when its clusters exist)"
        session.terminal.print(f"{each.kind.lower()}/{each.name} {outcome.verb}{suffix}")
    return 0


async def show_differences(session: Session, declared: Sequence[Declared]) -> int:
    """Prints a unified diff of what would change. Returns 1 if anything would."""
    planned: set[str] = set()
    code = 0
    for each in declared:
        outcome = await _apply(session, each, True, planned)
        if outcome.verb != "unchanged":
            code = EXIT_DIFFERENT
            session.terminal.print("\n".join(difference(outcome)))
    return code


def difference(outcome: Outcome) -> list[str]:
    """A unified diff between the present state and the declared one."""
    name = f"{outcome.declared.kind.lower()}/{outcome.declared.name}"
    before = _lines(outcome.before) if outcome.before is not None else []
    lines = difflib.unified_diff(before, _lines(outcome.after), f"{name} in the mesh", f"{name} as declared", n=2)
    return [line.rstrip("\n") for line in lines]


async def _apply(session: Session, declared: Declared, dry_run: bool, planned: set[str]) -> Outcome:
    """Creates or changes one object. `planned` collects clusters that a dry run only pretends to create."""
    try:
        for attempt in range(_ATTEMPTS):
            try:
                return _warned(session, await _apply_once(session, declared, dry_run, planned))
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the loop returns or raises")
    except BraidError as error:
        error.field = f"{declared.where}: {error.field}".rstrip(": ")
        raise


def _warned(session: Session, outcome: Outcome) -> Outcome:
    """Prints warnings about a declared stream's settings."""
    if isinstance(outcome.after, StreamSpec):
        for warning in stream_warnings(outcome.declared.name, outcome.after):
            session.terminal.note(warning)
    return outcome


async def _apply_once(session: Session, declared: Declared, dry_run: bool, planned: set[str]) -> Outcome:
    before, etag = await _current(session, declared)
    if before is None:
        if dry_run and isinstance(declared.spec, StreamSpec) and planned & set(declared.spec.clusters):
            return Outcome(declared, None, declared.spec, checked=False)
        planned.add(declared.name)
        return Outcome(declared, None, await _write(session, declared, "", create=True, dry_run=dry_run))
    if isinstance(before, GrantSpec) and before == declared.spec:  # also one that has ended
        return Outcome(declared, before, before)
    after = await _write(session, declared, etag, create=False, dry_run=True)
    if not dry_run and after != before:
        after = await _write(session, declared, etag, create=False, dry_run=False)
    return Outcome(declared, before, after)


async def _current(session: Session, declared: Declared) -> tuple[Spec | None, str]:
    """The present spec and its etag; None if there is none."""
    try:
        if declared.kind == "Stream":
            stream = await session.read("registry", "GetStream", api.GetStreamRequest(name=declared.name), Stream)
            return stream.spec, stream.etag
        if isinstance(declared.spec, GrantSpec):
            return await _current_grant(session, declared.spec), ""
        if isinstance(declared.spec, TenantSpec):
            found = await all_tenants(session, declared.name)
            return (found[0].spec if found else None), ""
        if isinstance(declared.spec, ApprovalPolicySpec):
            return await _current_policy(session, declared.name), ""
        cluster = await session.read("registry", "GetCluster", api.GetClusterRequest(name=declared.name), Cluster)
    except NotFound:
        return None, ""
    return cluster.spec, cluster.etag


async def _current_grant(session: Session, spec: GrantSpec) -> GrantSpec | None:
    """The present grant of the same principal, role and resource, which identify it."""
    found = await session.pages(
        "registry",
        "ListGrants",
        lambda token: grant_api.ListGrantsRequest(principal=spec.principal, page_size=PAGE_SIZE_MAX, page_token=token),
        grant_api.ListGrantsResponse,
        lambda page: page.grants,
    )
    same = [each.spec for each in found if (each.spec.role, each.spec.resource) == (spec.role, spec.resource)]
    return same[0] if same else None


async def _current_policy(session: Session, name: str) -> ApprovalPolicySpec | None:
    """The present approval policy of a name."""
    found = await session.pages(
        "registry",
        "ListApprovalPolicies",
        lambda token: approval_api.ListApprovalPoliciesRequest(page_size=PAGE_SIZE_MAX, page_token=token),
        approval_api.ListApprovalPoliciesResponse,
        lambda page: page.policies,
    )
    return next((each.spec for each in found if each.name == name), None)


async def _write(session: Session, declared: Declared, etag: str, *, create: bool, dry_run: bool) -> Spec:
    """Creates or updates an object, or only asks for the effect; returns the spec with the mesh's defaults filled
    in."""
    doing = f"{'checking' if dry_run else 'applying'} {declared.kind.lower()} {declared.name}"
    method = f"{'Create' if create else 'Update'}{declared.kind}"
    request: object
    if isinstance(declared.spec, GrantSpec):
        request = grant_api.GrantAccessRequest(spec=declared.spec, dry_run=dry_run)
        return (await session.change("registry", "GrantAccess", request, grant_api.Grant, doing)).spec
    if isinstance(declared.spec, TenantSpec):
        request = SetTenantRequest(name=declared.name, spec=declared.spec, dry_run=dry_run)
        return (await session.change("registry", "SetTenant", request, Tenant, doing)).spec
    if isinstance(declared.spec, ApprovalPolicySpec):
        request = approval_api.SetApprovalPolicyRequest(name=declared.name, spec=declared.spec, dry_run=dry_run)
        return (await session.change("registry", "SetApprovalPolicy", request, approval_api.ApprovalPolicy, doing)).spec
    if isinstance(declared.spec, StreamSpec):
        if create:
            request = api.CreateStreamRequest(name=declared.name, spec=declared.spec, dry_run=dry_run)
        else:
            request = api.UpdateStreamRequest(name=declared.name, spec=declared.spec, etag=etag, dry_run=dry_run)
        return (await session.change("registry", method, request, Stream, doing)).spec
    if create:
        request = api.CreateClusterRequest(name=declared.name, spec=declared.spec, dry_run=dry_run)
    else:
        request = api.UpdateClusterRequest(name=declared.name, spec=declared.spec, etag=etag, dry_run=dry_run)
    answer = await session.change("registry", method, request, Cluster, doing)
    if create or dry_run:  # a change is asked about first: it is warned of once
        for warning in cluster_warnings(declared.name, answer):
            session.terminal.note(warning)
    return answer.spec


def _lines(spec: Spec) -> list[str]:
    text = render_document(Format.YAML, to_document(spec)).removeprefix("---\n")
    return [f"{line}\n" for line in text.splitlines()]
