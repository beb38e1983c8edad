"""`doctor`: checks every part of a mesh, and says how to fix what is wrong."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from braid.cli.core.execution import ContextOption, DocumentOption, EndpointOption, execute
from braid.cli.core.limits import CLI_PROBE_SECONDS
from braid.cli.core.output import API_VERSION, TABLE_COLUMNS_MAX, Format, parse_format, render_document, wrapped
from braid.cli.errors import EXIT_REFUSED
from braid.kernel.errors import BraidError, Unsupported

if TYPE_CHECKING:
    from braid.api.assigner.v1.group_pb2 import Group
    from braid.cli.core.documents import Document
    from braid.cli.core.session import Session
    from braid.cli.doctor.cluster_findings import ClusterFacts
    from braid.cli.doctor.findings import Finding, ReplicaFacts
    from braid.rpc.directory import KnownEndpoint

_DOCTOR: Final = """Check services, clocks, TLS, rights, certificates, clusters, standbys, groups, lag and archives.

\b
  braid doctor
  braid doctor -o json

Exit code 4 when something is wrong; warnings alone leave it 0.
"""

_RESULT_COLUMNS: Final = 10  # `RESULT` between its gaps
_DETAIL_COLUMNS_MIN: Final = 30


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    app.command("doctor", help=_DOCTOR)(_doctor)


def _doctor(
    output: DocumentOption = "table",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    format = parse_format(output, (Format.TABLE, Format.JSON, Format.YAML))
    execute(endpoint, context, lambda session: _examine(session, format))


async def _examine(session: "Session", format: Format) -> int:
    from braid.cli.doctor.findings import Level

    async with session.terminal.waiting("asking every part of the mesh"):
        findings = await all_findings(session)
    if format is Format.TABLE:
        session.terminal.print_table(Format.TABLE, _table(findings, session.terminal.narrow))
    else:
        session.terminal.print(render_document(format, _document(findings)))
    return EXIT_REFUSED if any(each.level is Level.FAIL for each in findings) else 0


async def all_findings(session: "Session") -> list["Finding"]:
    """Runs every check; parts that cannot be read are findings too."""
    from braid.cli.core.lists import all_clusters, all_streams
    from braid.cli.doctor import findings
    from braid.cli.doctor.access_findings import check_access
    from braid.cli.doctor.archive import ask_archives
    from braid.cli.doctor.archive_findings import check_archive
    from braid.cli.doctor.asking import ask_cluster
    from braid.cli.doctor.certificate_findings import check_certificate
    from braid.cli.doctor.certificates import ask_certificates
    from braid.cli.doctor.cluster_findings import check_cluster, check_versions
    from braid.cli.doctor.kept_lag import ask_kept_lag
    from braid.cli.doctor.kept_lag_findings import check_kept_lag
    from braid.cli.doctor.plaintext_findings import check_plain_connections, check_plaintext
    from braid.cli.doctor.tokens import check_token, with_tokens

    endpoints = await session.endpoints()
    replicas = await asyncio.gather(*(_ask_replica(session, each) for each in endpoints))
    endpoints = await with_tokens(endpoints)
    found = [*findings.check_services(replicas), *findings.check_clocks(replicas)]
    found += [*check_plaintext(endpoints), *check_plain_connections(replicas), *check_access(replicas)]
    found += [
        finding for each in await ask_archives(session, endpoints) for finding in check_archive(each, session.now_ms)
    ]
    found += [
        finding
        for each in await ask_certificates(session, endpoints)
        for finding in check_certificate(each, session.now_ms / 1_000)
    ]
    if session.ports.token is not None:
        found.append(check_token(session.ports.token.bearer(), session.now_ms / 1_000))
    if any(each.service == "lagmon" and each.error is None for each in replicas):
        found += [check_kept_lag(each) for each in await ask_kept_lag(session, endpoints)]
        found += await _ask_lag(session)
    try:
        clusters = await all_clusters(session)
        streams = await all_streams(session)
    except BraidError as error:
        message = f"clusters and streams cannot be read: {error.message}"
        return [*found, findings.Finding("registry", "reads", findings.Level.FAIL, message, error.remedy)]
    facts = await asyncio.gather(*(ask_cluster(session, each, streams) for each in clusters))
    found += [finding for each in facts for finding in check_cluster(each)]
    found += check_versions(facts)
    found += [finding for each in streams for finding in findings.check_stream(each)]
    found += await _ask_groups(session, facts)
    if not clusters:
        remedy = "register one: braid create cluster NAME --bootstrap HOST:PORT"
        found.append(findings.Finding("clusters", "clusters", findings.Level.WARN, "there is none", remedy))
    return found


async def _ask_groups(session: "Session", clusters: Sequence["ClusterFacts"]) -> list["Finding"]:
    """Reads groups and finds those whose members have been gone for long."""
    from braid.cli.core.lists import all_groups
    from braid.cli.doctor.findings import Finding, Level
    from braid.cli.doctor.idle_groups import check_groups

    try:
        groups = await all_groups(session)
    except BraidError as error:
        return [Finding("assigner", "reads", Level.FAIL, f"groups cannot be read: {error.message}", error.remedy)]
    return [*check_groups(groups, clusters, session.now_ms), *await _ask_tenants(session, groups)]


async def _ask_tenants(session: "Session", groups: Sequence["Group"]) -> list["Finding"]:
    """Reads tenants, of which a registry of an older release knows nothing."""
    from braid.api.registry.v1.tenant_pb2 import ListTenantsRequest, ListTenantsResponse
    from braid.cli.core.lists import all_tenants
    from braid.cli.doctor.findings import Finding, Level
    from braid.cli.doctor.tenant_findings import check_kafka_quotas, check_tenants

    try:
        tenants = await all_tenants(session)
        first = await session.read("registry", "ListTenants", ListTenantsRequest(page_size=1), ListTenantsResponse)
        return [*check_tenants(tenants, groups), *check_kafka_quotas(tenants, first.leftovers)]
    except Unsupported:
        return []
    except BraidError as error:
        return [Finding("tenants", "reads", Level.WARN, f"tenants cannot be read: {error.message}", error.remedy)]


async def _ask_lag(session: "Session") -> list["Finding"]:
    """Reads lagmon's lags and checks that they are recent."""
    from braid.api.lagmon.v1.lagmon_service_pb2 import LagFilter
    from braid.cli.doctor.findings import Finding, Level, check_lag
    from braid.cli.resources.lag.listing import DETAILS, list_lag

    try:
        lags, catching_up = await list_lag(session, LagFilter(), DETAILS["channel"])
    except BraidError as error:
        return [Finding("lag", "reads", Level.WARN, f"it cannot be read: {error.message}", error.remedy)]
    return [*check_lag(lags, catching_up, session.now_ms), *await _ask_outlets(session)]


async def _ask_outlets(session: "Session") -> list["Finding"]:
    """Reads where alerts are sent; who may not view the whole mesh is told nothing of it."""
    from braid.api.lagmon.v1.lagmon_service_pb2 import ListAlertsRequest, ListAlertsResponse
    from braid.cli.doctor.outlet_findings import check_outlets

    try:
        first = await session.read("lagmon", "ListAlerts", ListAlertsRequest(page_size=1), ListAlertsResponse)
    except BraidError:
        return []
    return check_outlets(first.outlets, session.now_ms)


async def _ask_replica(session: "Session", known: "KnownEndpoint") -> "ReplicaFacts":
    """Asks one particular replica for its clock."""
    from braid.api.mesh.v1.endpoint_pb2 import ListEndpointsRequest, ListEndpointsResponse
    from braid.cli.core.replicas import connected
    from braid.cli.doctor.findings import ReplicaFacts

    facts = ReplicaFacts(known.service, known.instance, known.address, known.leader)
    clock, asked = session.ports.host.clock, ("ListEndpoints", ListEndpointsRequest(), ListEndpointsResponse)
    try:
        async with connected(session, known) as replica:
            await replica.ask(*asked, CLI_PROBE_SECONDS)  # connecting takes its time
            asked_ms = clock.now_ms()
            answer = await replica.ask(*asked, CLI_PROBE_SECONDS)
            answered_ms = clock.now_ms()
    except BraidError as error:
        return facts._replace(error=error)
    facts = facts._replace(access=answer.access, plaintext=tuple(answer.plaintext))
    if not answer.time_ms:
        return facts
    skew = (answer.time_ms - (asked_ms + answered_ms) / 2) / 1_000
    return facts._replace(skew_seconds=skew, doubt_seconds=(answered_ms - asked_ms) / 2_000)


def _table(findings: Sequence["Finding"], narrow: bool) -> str:
    width = max(len(each.name) for each in findings)
    room = max(_DETAIL_COLUMNS_MIN, TABLE_COLUMNS_MAX - width - _RESULT_COLUMNS)
    lines = [f"{'NAME':{width}}  RESULT  DETAIL"]
    for each in findings:
        first, *rest = wrapped(each.message, room, narrow)
        lines.append(f"{each.name:{width}}  {each.level.value.upper():6}  {first}")
        rest += wrapped(f"→ {each.remedy}", room, narrow, "  ") if each.remedy else []
        lines += [f"{'':{width}}          {line}" for line in rest]
    return "\n".join(lines)


def _document(findings: Sequence["Finding"]) -> "Document":
    from braid.cli.doctor.findings import Level

    return {
        "apiVersion": API_VERSION,
        "kind": "Diagnosis",
        "ok": not any(each.level is Level.FAIL for each in findings),
        "findings": [{**each._asdict(), "level": each.level.value} for each in findings],
    }
