"""`certs init`, `issue`, `rotate` and `show` work on a directory; `certs revoke` speaks to a mesh."""

import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, DryRunOption, EndpointOption, YesOption, execute
from braid.cli.core.output import Format, parse_format
from braid.cli.core.times import parse_end, to_ms
from braid.cli.errors import EXIT_DIFFERENT
from braid.host.system import SystemClock
from braid.kernel.errors import Invalid
from braid.kernel.limits.access.certs import CA_RENEWAL_DAYS, LEAF_DAYS

if TYPE_CHECKING:
    from braid.certs.authority import Authority, Renewed

DEFAULT_DIRECTORY: Final = Path("certs")

_HELP: Final = """Make and renew the certificates of a mesh, where there is no PKI to issue them.

\b
  braid certs init                                        a CA in ./certs; keep a backup of it
  braid certs issue service/registry-0 --dns registry-0.example.com --ip 10.0.0.1
  braid certs issue user/anna                             for a person, or app/indexer for an application
  braid certs show                                        names, ends and days left
  braid certs rotate                                      renew what ends soon
  braid certs revoke --certificate stolen.pem             refuse it at every service of the mesh

DIR/service/registry-0 then holds certificate.pem, key.pem and ca.pem: all that this process needs. Copy them there.
Processes read renewed files by themselves. Only `revoke` speaks to a mesh; it takes certificates of any PKI.
"""
_INIT: Final = """Make a CA in a new directory, which nobody else may open.

\b
  braid certs init
  braid certs init /secure/certs --trust-domain mesh.example.com

A holder of DIR/ca/key.pem can speak for everybody in the mesh. Keep the directory away from the mesh's machines.
"""
_ISSUE: Final = """Make a certificate and its key, or make a certificate anew.

\b
  braid certs issue service/registry-0 --dns registry-0.example.com --ip 10.0.0.1
  braid certs issue user/anna --days 30
  braid certs issue app/indexer --new-key                 its key may be in wrong hands

NAME is service/INSTANCE, user/NAME or app/NAME. Only services get certificates that clients accept from a server.
A certificate that is there is made anew: it keeps its key, and what the flags do not say.
"""
_ROTATE: Final = """Renew certificates that end soon, or move the mesh to another CA.

\b
  braid certs rotate                                      what has a third of its life left, or less
  braid certs rotate --within 3650                        all
  braid certs rotate --ca                                 a new CA; every certificate is made anew
  braid certs rotate --ca --finish                        the old CA is trusted no longer

Between the last two, copy every directory to its process, in any order: old and new certificates accept one another.
Finish when every process has read its files; then copy all of them once more.
"""
_SHOW: Final = """List the CA and every certificate: names, ends, days left.

\b
  braid certs show
  braid certs show -o json
  braid certs show --check --within 14                    exit code 1 when something must be renewed
"""
_REVOKE: Final = """Refuse a principal or a certificate at every service, and end its open streams within seconds.

\b
  braid certs revoke --certificate stolen.pem --reason 'laptop stolen'
  braid certs revoke sha256:1F:A0:…                       by its fingerprint: openssl x509 -fingerprint -sha256
  braid certs revoke serial:0A1B…  --ends 2026-12-31      by its serial number, of any signer
  braid certs revoke spiffe://braid.local/app/indexer     every certificate of a principal, now and later
  braid certs revoke spiffe://braid.local/app/indexer --lift
  braid get revocations                                   who is revoked

A certificate stays on the list until it has ended; a principal, and a certificate whose end nobody said, until it is
lifted. An application whose certificate was revoked needs another one: braid certs issue app/NAME --new-key.
"""
_HOLDERS: Final = ("service", "user", "app")
_Dir = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Directory that `braid certs init` made.")]
_Within = Annotated[
    float | None,
    typer.Option(
        metavar="DAYS",
        min=0,
        show_default="a third of its life",
        help="Renew certificates that end within this many days.",
    ),
]


def register(app: typer.Typer) -> None:
    """Adds `certs` to the application."""
    certs = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)
    certs.command("init", help=_INIT)(_init)
    certs.command("issue", help=_ISSUE, context_settings={"allow_extra_args": True})(_issue)
    certs.command("rotate", help=_ROTATE)(_rotate)
    certs.command("show", help=_SHOW)(_show)
    certs.command("revoke", help=_REVOKE)(_revoke)
    app.add_typer(certs, name="certs")


def _init(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]")] = DEFAULT_DIRECTORY,
    trust_domain: Annotated[
        str, typer.Option(metavar="DOMAIN", help="The beginning of all names of this mesh: spiffe://DOMAIN/….")
    ] = "braid.local",
) -> None:
    from braid.certs.authority import Authority

    authority = Authority.create(directory, trust_domain, _now())
    print(f"{directory}: a CA for spiffe://{authority.trust_domain}, until {authority.ca_validity.ends:%Y-%m-%d}")
    print(f"keep a backup of {directory / 'ca'}, away from the mesh: its key speaks for everybody")


def _issue(
    typed: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="service/INSTANCE, user/NAME or app/NAME.")],
    dns: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Name at which clients reach the service; repeatable.")
    ] = None,
    ip: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="Address at which clients reach it; repeatable.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(metavar="N", show_default=str(LEAF_DAYS), help="How long it is valid.")
    ] = None,
    new_key: Annotated[bool, typer.Option("--new-key", help="Make a new key, too.")] = False,
    directory: _Dir = DEFAULT_DIRECTORY,
) -> None:
    if typed.args:
        meant = f"{name}/{typed.args[0]}" if name in _HOLDERS else name
        remedy = f"did you mean braid certs issue {meant}?"
        raise Invalid(f"it takes one name, not also {' '.join(typed.args)}", field="NAME", remedy=remedy)
    authority = _open(directory)
    from braid.certs.contents import Reached
    from braid.certs.identity import Identity

    identity = Identity.parse(name)
    reached = Reached(tuple(dns or ()), tuple(ip or ()))
    contents = authority.issue(identity, _now(), reached, days, fresh_key=new_key)
    print(f"{authority.path(identity)}: {contents.spiffe_id}, until {contents.validity.ends:%Y-%m-%d}")


def _rotate(
    within: _Within = None,
    ca: Annotated[bool, typer.Option("--ca", help="Make a new CA; both are trusted until --finish.")] = False,
    finish: Annotated[bool, typer.Option("--finish", help="With --ca: stop trusting the old CA.")] = False,
    new_keys: Annotated[bool, typer.Option("--new-keys", help="Make new keys, too.")] = False,
    directory: _Dir = DEFAULT_DIRECTORY,
) -> None:
    if finish and not ca:
        raise Invalid("only a rotation of the CA has an end", field="--finish", remedy="write --ca --finish")
    if new_keys and ca:
        raise Invalid(
            "certificates of a new CA keep their keys", field="--new-keys", remedy="rotate again without --ca"
        )
    authority, now = _open(directory), _now()
    if finish:
        renewed = authority.finish_rotation(now, within)
    elif ca:
        renewed = authority.begin_rotation(now, within)
    else:
        renewed = authority.renew(now, within, fresh_keys=new_keys)
    _tell(authority, renewed, now)


def _tell(authority: "Authority", renewed: "list[Renewed]", now: datetime) -> None:
    for contents, reason in renewed:
        print(f"{authority.path(contents.identity)}: until {contents.validity.ends:%Y-%m-%d} ({reason})")
    print(f"{len(renewed)} renewed{'; copy them to their processes' if renewed else ''}")
    if authority.previous_validity is not None:
        print("both CAs are trusted; when every process has its files: braid certs rotate --ca --finish")
    left = authority.ca_validity.days_left(now)
    if left < CA_RENEWAL_DAYS:
        print(f"the CA ends in {left:.0f} days: braid certs rotate --ca makes another one", file=sys.stderr)


def _show(
    within: _Within = None,
    check: Annotated[bool, typer.Option("--check", help="End with 1 when something must be renewed.")] = False,
    output: Annotated[str, typer.Option("-o", "--output", metavar="table|json", help="Output format.")] = "table",
    directory: _Dir = DEFAULT_DIRECTORY,
) -> None:
    form = parse_format(output, (Format.TABLE, Format.JSON))
    authority = _open(directory)
    from braid.cli.certs.listing import listed, table_text, to_json

    rows = listed(authority, _now(), within)
    print(to_json(authority, rows) if form is Format.JSON else table_text(rows))
    if check and any(row.state != "ok" for row in rows):
        raise typer.Exit(EXIT_DIFFERENT)


def _revoke(
    identity: Annotated[
        str, typer.Argument(metavar="[IDENTITY]", help="A principal, sha256:… or serial:…", show_default=False)
    ] = "",
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="PEM file of the certificate; it says all that is needed.")
    ] = None,
    ends: Annotated[
        str, typer.Option(metavar="TIME", help="When a certificate ends that is named by its digits: 2026-12-31.")
    ] = "",
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Kept with it, for people.")] = "",
    lift: Annotated[bool, typer.Option("--lift", help="Accept it again.")] = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    if bool(identity) == (certificate is not None):
        raise Invalid("one identity is revoked, or lifted", field="IDENTITY", remedy="name it, or give --certificate")
    from braid.kernel.access.revocations import Revocation, check_identity

    revocation = Revocation(identity, reason=reason)
    if certificate is not None:
        from braid.certs.revocable import read_certificate

        found = read_certificate(certificate, "--certificate")
        revocation = Revocation(found.identity, found.principal, reason, found.expire_ms)
    revocation = replace(revocation, identity=check_identity(revocation.identity, "IDENTITY"))
    if ends:
        revocation = replace(revocation, expire_ms=to_ms(parse_end(ends, datetime.now().astimezone(), "--ends")))
    from braid.cli.certs import revoking

    if lift:
        execute(endpoint, context, lambda session: revoking.lift(session, revocation.identity, reason, dry_run))
    else:
        execute(endpoint, context, lambda session: revoking.revoke(session, revocation, dry_run, yes))


def _open(directory: Path) -> "Authority":
    from braid.certs.authority import Authority

    return Authority(directory)


def _now() -> datetime:
    return datetime.fromtimestamp(SystemClock().now_ms() / 1_000, UTC)
