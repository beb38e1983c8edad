"""`archive verify`: reads the archives of all replicas again, and lists missing and changed events."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from braid.cli.core.execution import ContextOption, EndpointOption, execute
from braid.cli.core.limits import CLI_PROBE_SECONDS
from braid.cli.errors import EXIT_REFUSED
from braid.kernel.errors import BraidError, NotFound, Unsupported
from braid.kernel.limits.archive import ARCHIVE_VERIFY_SECONDS

if TYPE_CHECKING:
    from braid.api.mesh.v1.archive_pb2 import VerifyArchiveResponse
    from braid.cli.core.session import Session
    from braid.cli.doctor.archive_findings import ArchiveFacts
    from braid.rpc.directory import KnownEndpoint

SERVICES: Final = ("registry", "assigner", "dlq", "lagmon")
_VERIFY: Final = """Check every archived event against its hash.

\b
  braid archive verify
  braid archive verify --for stream/logs

Every replica reads its archive again, and completes it from its peers. What is changed or missing is named by event;
the exit code is 4 then. What is older than an archive reaches back is not missing.
"""


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    archive = typer.Typer(rich_markup_mode=None, no_args_is_help=True, help="Check the archived histories.")
    archive.callback()(_archive)
    archive.command("verify", help=_VERIFY)(_verify)
    app.add_typer(archive, name="archive")


def _archive() -> None:
    """Check the archived histories."""


def _verify(
    for_: Annotated[str, typer.Option("--for", metavar="TYPE/NAME", help="Only this history: stream/logs.")] = "",
    endpoint: EndpointOption = "",
    context: ContextOption = "",
) -> None:
    execute(endpoint, context, lambda session: _verify_all(session, for_))


async def _verify_all(session: "Session", subject: str) -> int:
    from braid.cli.doctor.archive_findings import gap_text
    from braid.cli.history.feed import parse_subject

    wanted = parse_subject(subject)
    services = (wanted.service,) if wanted.service else SERVICES
    bad = checked = 0
    for known in [each for each in await session.endpoints() if each.service in services]:
        try:
            pages = await verify_replica(session, known, wanted.history)
        except (NotFound, Unsupported) as error:
            session.terminal.note(f"{known.instance}: {error.message}")
            continue
        except BraidError as error:
            session.terminal.print(f"{known.instance}: not checked: {error.message}")
            bad += 1
            continue
        checked += 1
        problems = [gap for page in pages for gap in page.problems]
        events, histories = sum(page.events for page in pages), sum(page.histories for page in pages)
        verdict = f"{len(problems)} problems" if problems else "whole"
        session.terminal.print(f"{known.instance}: {events} archived events of {histories} histories: {verdict}")
        for gap in problems:
            session.terminal.print(f"  {gap_text(gap)}")
        bad += len(problems)
    if not checked and not bad:
        raise NotFound("no replica has an archive", remedy="set BRAID_ARCHIVE")
    return EXIT_REFUSED if bad else 0


async def ask_archives(session: "Session", endpoints: Sequence["KnownEndpoint"]) -> list["ArchiveFacts"]:
    """Asks each replica about its archive, and each leader for missing events. Skips silent replicas."""
    return [facts for each in endpoints if each.service in SERVICES if (facts := await _ask(session, each)) is not None]


async def _ask(session: "Session", known: "KnownEndpoint") -> "ArchiveFacts | None":
    from braid.api.mesh.v1.archive_pb2 import ArchiveStatus, GetArchiveRequest
    from braid.cli.core.replicas import connected
    from braid.cli.doctor.archive_findings import ArchiveFacts

    try:
        async with connected(session, known) as replica:
            status = await replica.ask("GetArchive", GetArchiveRequest(), ArchiveStatus, CLI_PROBE_SECONDS)
        facts = ArchiveFacts(known.service, known.instance, known.leader, status)
        if not known.leader or not status.location:
            return facts
        pages = await verify_replica(session, known, names_only=True)
    except BraidError:  # away, or of an older release: other checks tell
        return None
    return facts._replace(problems=[gap for page in pages for gap in page.problems])


async def verify_replica(
    session: "Session", known: "KnownEndpoint", history: str = "", *, names_only: bool = False
) -> Sequence["VerifyArchiveResponse"]:
    """All pages of one replica's answer. Raises `NotFound` if it has no archive, `Unsupported` for older releases."""
    from braid.api.mesh.v1.archive_pb2 import VerifyArchiveRequest, VerifyArchiveResponse
    from braid.cli.core.replicas import connected

    pages: list[VerifyArchiveResponse] = []
    request = VerifyArchiveRequest(history=history, names_only=names_only)
    async with connected(session, known) as replica:
        while True:
            pages.append(await replica.ask("VerifyArchive", request, VerifyArchiveResponse, ARCHIVE_VERIFY_SECONDS))
            request.page_token = pages[-1].next_page_token
            if not request.page_token:
                return pages
