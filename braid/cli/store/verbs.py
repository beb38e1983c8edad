"""`store backup` and `store restore`: they open the event store itself; for a restore, services must be stopped."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Final

import typer

from braid.cli.core.asking import ask, require_terminal
from braid.host.store_credentials import (
    ETCD_SCHEMES,
    StoreCredentials,
    etcd_credentials,
    store_credentials_of_environment,
)
from braid.host.system import SystemClock
from braid.kernel.errors import Invalid
from braid.stores.backups import StoreFacts

_STORE: Final = """Back up the event store, and restore it.

\b
  braid store backup store.backup --store sqlite:///var/lib/braid/store.db
  braid store restore store.backup --store sqlite:///var/lib/braid/store.db
"""
_BACKUP: Final = """Copy the event store into a new file, at one moment; services may go on.

\b
  braid store backup store.backup --store sqlite:///var/lib/braid/store.db
  braid store backup store.backup --store etcd+tls://10.0.0.1:2379,10.0.0.2:2379

With etcd+tls, BRAID_STORE_TLS_CERTIFICATE, _KEY and _CA name what to show etcd, or else BRAID_TLS_…; BRAID_STORE_USER
and BRAID_STORE_PASSWORD_FILE name a user.
"""
_RESTORE: Final = """Put a backup in the place of the event store, under a new incarnation. Services must be stopped.

\b
  braid store restore store.backup --store sqlite:///var/lib/braid/store.db
  braid store restore --in-place --store etcd+tls://10.0.0.1:2379      etcd's own tools, or a disk snapshot, put it back

A backup of another mesh is refused. Services that start again first compare every Kafka cluster with the histories:
channels that took records since the backup are drained, what no history knows is listed by `braid describe cluster`.
"""
_StoreOption = Annotated[
    str,
    typer.Option(
        "--store", envvar="BRAID_STORE", metavar="URL", help="sqlite:///path/of/file or etcd+tls://host:port,…"
    ),
]


def register(app: typer.Typer) -> None:
    """Adds `store` to the application."""
    store = typer.Typer(help=_STORE, no_args_is_help=True, rich_markup_mode=None)
    store.command("backup", help=_BACKUP)(_backup)
    store.command("restore", help=_RESTORE)(_restore)
    app.add_typer(store, name="store")


def _backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", show_default=False)], store: _StoreOption = ""
) -> None:
    scheme, rest = _parsed(store)
    if not file.absolute().parent.is_dir():
        raise Invalid(f"there is no directory {file.parent}", field="FILE", remedy=f"make it: mkdir -p {file.parent}")
    if scheme == "sqlite":
        from braid.stores.sqlite_backup import back_up

        facts = back_up(Path(rest), file)
    else:
        from braid.stores.etcd import backup

        members, credentials = rest.split(","), _credentials(scheme, rest)
        facts = asyncio.run(backup.back_up(members, SystemClock(), file, credentials))
    print(f"{file}: backup of mesh {facts.mesh or '(without an id)'}, {_text(facts)}")


def _restore(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", show_default=False)] = None,
    store: _StoreOption = "",
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Only begin a new incarnation; the store was restored by other means.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything; change nothing.")] = False,
) -> None:
    scheme, rest = _parsed(store)
    if (file is None) is not in_place:
        raise Invalid("name a backup, or say --in-place", field="FILE", remedy="see braid store restore --help")
    if not (yes or dry_run):
        require_terminal(yes, f"replace the histories in {store}")
        ask(f"Replace the histories in {store}?", "nothing was changed")
    if scheme == "sqlite":
        facts, kept = _put_back_sqlite(rest, file, dry_run)
    else:
        facts, kept = _put_back_etcd(rest, file, dry_run, _credentials(scheme, rest)), None
    print(f"{store}: {'would be' if dry_run else 'is'} mesh {facts.mesh or '(without an id)'}, {_text(facts)}")
    if kept is not None:
        print(f"what was there before: {kept}")


def _put_back_sqlite(name: str, file: Path | None, dry_run: bool) -> tuple[StoreFacts, Path | None]:
    from braid.stores.sqlite_backup import begin_incarnation, read_facts, restore

    clock, path = SystemClock(), Path(name)
    if file is not None:
        return restore(path, file, clock.now_ms(), clock.elapsed(), dry_run=dry_run)
    return read_facts(path) if dry_run else begin_incarnation(path, clock.now_ms(), clock.elapsed()), None


def _put_back_etcd(
    endpoints: str, file: Path | None, dry_run: bool, credentials: StoreCredentials | None
) -> StoreFacts:
    from braid.stores.etcd import backup

    clock, members = SystemClock(), endpoints.split(",")
    if file is not None:
        return asyncio.run(backup.restore(members, clock, file, credentials, dry_run=dry_run))
    return asyncio.run(backup.begin_incarnation(members, clock, credentials, dry_run=dry_run))


def _credentials(scheme: str, endpoints: str) -> StoreCredentials | None:
    return etcd_credentials(scheme, endpoints.split(","), store_credentials_of_environment(os.environ))


def _parsed(store: str) -> tuple[str, str]:
    scheme, _, rest = store.partition("://")
    if scheme not in ("sqlite", *ETCD_SCHEMES) or not rest:
        remedy = "write --store sqlite:///path/of/file or etcd+tls://host:port, or set BRAID_STORE"
        raise Invalid(f"{store!r} names no event store", field="--store", remedy=remedy)
    return scheme, rest if scheme == "sqlite" else rest.rstrip("/")


def _text(facts: StoreFacts) -> str:
    return f"incarnation {facts.incarnation}, {facts.histories} histories"
