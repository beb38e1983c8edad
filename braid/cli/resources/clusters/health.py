"""`set health`: a cluster's own health thresholds; and the evidence that `describe cluster` shows."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.kernel.errors import Invalid, NotFound

if TYPE_CHECKING:
    from braid.api.registry.v1.cluster_pb2 import Cluster, HealthEvidence, HealthThresholds
    from braid.cli.core.session import Session

_HEALTH: Final = """Judge a cluster's health by numbers of its own. Seconds unless named; what is left out stays.

\b
  braid set health east look_timeout_seconds=3 slow_floor_seconds=1     a cluster far away
  braid set health east flap_falls=0                                    never held up when it returns
  braid set health east slow_factor=default                             Braid's own again
  braid describe cluster east                                           what is in force, and the evidence
"""
_OWN: Final = "default"
_WITHOUT: Final = "judged by Braid's own numbers"
_LABEL_COLUMNS: Final = 26

_Cluster = Annotated[str, typer.Argument(metavar="CLUSTER", show_default=False)]
_Numbers = Annotated[list[str], typer.Argument(metavar="THRESHOLD=NUMBER...", show_default=False)]


def register(settings: typer.Typer) -> None:
    """Adds the setting to the application."""
    settings.command("health", help=_HEALTH)(_set_health)


def change_thresholds(thresholds: "HealthThresholds", assignments: Sequence[str], field: str) -> None:
    """Sets thresholds by `NAME=NUMBER`, and resets them by `NAME=default`.

    Raises:
        Invalid: a threshold is unknown, or a number malformed; `field` and the remedy name them.
    """
    names = [each.name for each in thresholds.DESCRIPTOR.fields]
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if name not in names or not equals:
            raise Invalid(f"{assignment!r} sets no threshold", field=field, remedy=f"NAME=NUMBER; {', '.join(names)}")
        if text == _OWN:
            thresholds.ClearField(name)  # type: ignore[arg-type]
            continue
        try:
            setattr(thresholds, name, float(text))
        except ValueError:
            raise Invalid(f"{text!r} is no number", field=field, remedy=f"write {name}=NUMBER, or ={_OWN}") from None


def evidence_lines(evidence: "HealthEvidence", declared: "HealthThresholds") -> list[str]:
    """The present evidence, for people, and the thresholds declared for the cluster."""
    missing = f", missing: {_listed(evidence.missing_brokers)}" if evidence.missing_brokers else ""
    silent = f", silent: {_listed(evidence.silent_brokers)}" if evidence.silent_brokers else ""
    gone = f", {evidence.gone_partitions} gone: {', '.join(evidence.gone)}" if evidence.gone else ""
    thin = evidence.under_replicated_partitions
    rows = [
        ("last look", evidence.failed or "all went well"),
        (
            "append",
            f"{evidence.append_seconds * 1e3:.0f} ms, {evidence.usual_append_seconds * 1e3:.0f} ms is usual, "
            f"slow beyond {evidence.slow_append_seconds * 1e3:.0f} ms",
        ),
        ("brokers", f"{evidence.brokers}{missing}{silent}"),
        ("partitions", f"{evidence.partitions}{gone}" + (f", {thin} lack copies in step" if thin else "")),
        ("falls within 5 min", f"{evidence.falls}"),
    ]
    if evidence.no_topics:
        rows.append(("new topics", evidence.no_topics))
    if own := _declared(declared):
        rows.append(("judged by", own))
    if evidence.hosts:
        told = f"{evidence.hosts_reaching} reach it, {evidence.hosts_failing} do not, of {evidence.hosts}"
        rows.append(("hosts asked", told))
    return ["Evidence:", *(f"  {f'{label}:':{_LABEL_COLUMNS - 2}}{text}" for label, text in rows)]


def _listed(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers))


def _declared(thresholds: "HealthThresholds") -> str:
    return ", ".join(f"{field.name}={value:g}" for field, value in thresholds.ListFields())


async def with_evidence(session: "Session", name: str) -> "Cluster":
    """A cluster with its evidence, from the leading registry."""
    from braid.api.registry.v1 import registry_service_pb2 as api
    from braid.api.registry.v1.cluster_pb2 import Cluster

    return await session.read("registry", "GetCluster", api.GetClusterRequest(name=name), Cluster)


def _set_health(name: _Cluster, numbers: _Numbers, endpoint: EndpointOption = "", context: ContextOption = "") -> None:
    execute(endpoint, context, lambda session: _change(session, name, numbers))


async def _change(session: "Session", name: str, numbers: Sequence[str]) -> int:
    from braid.api.registry.v1 import registry_service_pb2 as api
    from braid.api.registry.v1.cluster_pb2 import Cluster
    from braid.cli.core.lists import all_clusters
    from braid.cli.core.session import missing_among

    try:
        cluster = await with_evidence(session, name)
    except NotFound as error:
        raise await missing_among(error, name, all_clusters(session)) from error
    change_thresholds(cluster.spec.health, numbers, "THRESHOLD")
    if not cluster.spec.health.ListFields():
        cluster.spec.ClearField("health")
    request = api.UpdateClusterRequest(name=name, spec=cluster.spec, etag=cluster.etag)
    made = await session.change("registry", "UpdateCluster", request, Cluster, f"changing {name}")
    session.terminal.print(f"cluster/{name} health: {_declared(made.spec.health) or _WITHOUT}")
    return 0
