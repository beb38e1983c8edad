"""`acls generate`: the Kafka ACLs that a role needs on a cluster. It contacts no mesh; `--apply` contacts the
cluster."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.acls.listing import BOOTSTRAP, acl_commands, acl_documents
from braid.cli.core.output import Format, render_document
from braid.kernel.acls import TOPIC_PREFIX, AclScope, acls_of, check_principal
from braid.kernel.errors import Invalid
from braid.kernel.ports import Acl

if TYPE_CHECKING:
    from braid.kernel.ports import Kafka

_ACLS: Final = """Print the Kafka ACLs that a role needs, and give them.

\b
  braid acls generate --principal User:shop --role producer --stream orders
"""
_GENERATE: Final = """Print the Kafka ACLs that an application, the console or the services need on a cluster.

\b
  braid acls generate --principal User:shop --role producer --stream orders
  braid acls generate --principal User:billing --role consumer --stream orders --group billing
  braid acls generate --principal User:console --role reader
  braid acls generate --principal User:braid --role service
  braid acls generate --principal User:braid --role service --set-quotas
  braid acls generate --principal User:braid --role service --group billing --group audit -o yaml
  braid acls generate --principal User:shop --role producer --stream orders \\
      --apply --bootstrap east:9093 --security-profile east-admin

A reader looks at records without a group, as the console and `braid consume` do.
Without --stream it is for all streams of the mesh. A service without --group may use every group of the cluster.
ACLs that are there already stay, also those that the role does not need.
"""
_COMMANDS: Final = "commands"
_FORMATS: Final = {_COMMANDS: None, Format.JSON.value: Format.JSON, Format.YAML.value: Format.YAML}


def register(app: typer.Typer) -> None:
    """Adds `acls` to the application."""
    acls = typer.Typer(help=_ACLS, no_args_is_help=True, rich_markup_mode=None)
    acls.callback()(lambda: None)  # without it typer takes the single command for the whole of `acls`
    acls.command("generate", help=_GENERATE)(_generate)
    app.add_typer(acls, name="acls", help=_ACLS)


def _generate(
    principal: Annotated[
        str, typer.Option("--principal", metavar="NAME", help="The principal that gets the ACLs, as User:NAME.")
    ] = "",
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="producer, consumer, reader or service.")] = "",
    stream: Annotated[
        list[str] | None, typer.Option("--stream", metavar="STREAM", help="A stream it works with; may be repeated.")
    ] = None,
    lane: Annotated[
        list[str] | None, typer.Option("--lane", metavar="LANE", help="Only this lane of the streams; may be repeated.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="GROUP", help="A group it works for; may be repeated.")
    ] = None,
    topic_prefix: Annotated[
        str, typer.Option("--topic-prefix", metavar="PREFIX", help="The topic prefix that the cluster declares.")
    ] = TOPIC_PREFIX,
    change_copies: Annotated[
        bool, typer.Option("--change-copies", help="Services may move copies of partitions; that needs Alter.")
    ] = False,
    set_quotas: Annotated[
        bool, typer.Option("--set-quotas", help="Services may set tenants' quotas of bytes; that needs AlterConfigs.")
    ] = False,
    apply: Annotated[bool, typer.Option("--apply", help="Create the ACLs on the cluster at --bootstrap.")] = False,
    bootstrap: Annotated[str, typer.Option("--bootstrap", metavar="HOST:PORT", help="The cluster's brokers.")] = "",
    security_profile: Annotated[
        str,
        typer.Option("--security-profile", metavar="NAME", help="Security profile that may change ACLs, for --apply."),
    ] = "",
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FORMAT", help="commands, json or yaml.")
    ] = _COMMANDS,
) -> None:
    if output not in _FORMATS:
        raise Invalid(f"{output!r} is no output format here", field="--output", remedy=f"use {', '.join(_FORMATS)}")
    if apply and not bootstrap:
        raise Invalid("--apply needs a cluster", field="--bootstrap", remedy="name its brokers: --bootstrap HOST:PORT")
    name = check_principal(principal)
    scope = AclScope(stream or (), lane or (), group or (), topic_prefix, change_copies, set_quotas)
    acls = acls_of(role, scope)
    if apply:
        from braid.client.mesh import system_ports

        asyncio.run(give(system_ports("braid-acls").kafka, bootstrap, security_profile, name, acls))
        print(f"{name} may do what a {role} needs on {bootstrap}: {len(acls)} ACLs")
    elif (format := _FORMATS[output]) is None:
        print(acl_commands(name, acls, bootstrap or BOOTSTRAP))
    else:
        print(render_document(format, {"acls": [*acl_documents(name, acls)]}))


async def give(kafka: "Kafka", bootstrap: str, security_profile: str, principal: str, acls: Sequence[Acl]) -> None:
    """Creates a principal's ACLs on a cluster. Raises `Invalid`, and the errors of `KafkaAdmin.create_acls`."""
    admin = kafka.cluster(bootstrap, security_profile).admin()
    try:
        await admin.create_acls(principal, acls)
    finally:
        await admin.close()
