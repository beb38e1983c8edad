"""`open`: prints a link to a page of the console, which signs its user in once, or opens it in a browser."""

import json
import os
import time
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import quote

import typer

from braid.cli.errors import nearest
from braid.host.console_links import sign_in_url
from braid.host.endpoints import READY_FILE
from braid.kernel.errors import Invalid, Unavailable

CONSOLE_VARIABLE: Final = "BRAID_CONSOLE"
_OPEN: Final = """Print a link to the console. It signs you in once, within five minutes.

\b
  braid open
  braid open stream/logs
  braid open group/indexer --browser      open it in a browser at once
  braid open events --console https://braid.example.com

It finds the console of the `braid dev` in this directory, or in --dir. A console elsewhere, named by --console or
BRAID_CONSOLE, asks you to sign in by itself.
"""
_PAGES: Final = {
    "stream": "streams",
    "group": "groups",
    "cluster": "clusters",
    "deadletter": "dead-letters",
    "replay": "replays",
    "alert": "alerts",
    "lease": "leases",
}
_LISTS: Final = ("streams", "groups", "clusters", "dead-letters", "replays", "alerts", "events", "pathways", "access")


def register(app: typer.Typer) -> None:
    """Adds the verb to the application."""
    app.command("open", help=_OPEN)(_open)


def _open(
    page: Annotated[str, typer.Argument(metavar="[TYPE/NAME]", show_default=False)] = "",
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Directory with the state of a local mesh.")
    ] = READY_FILE.parent,
    console: Annotated[
        str, typer.Option(metavar="URL", help="A console elsewhere. [env: BRAID_CONSOLE]", show_default=False)
    ] = "",
    browser: Annotated[bool, typer.Option("--browser", help="Open the link in a browser, too.")] = False,
) -> None:
    path = page_path(page)
    elsewhere = console or os.environ.get(CONSOLE_VARIABLE, "")
    link = f"{_checked(elsewhere)}{path}" if elsewhere else signing_link(directory, path)
    typer.echo(link)
    if browser:
        import webbrowser

        webbrowser.open(link)


def page_path(page: str) -> str:
    """The path of a page: `stream/logs` is at `/streams/logs`. Raises `Invalid` naming the nearest kind."""
    kind, slash, name = page.strip("/").partition("/")
    if not kind:
        return "/"
    if not slash and kind in _LISTS:
        return f"/{kind}"
    single = kind if kind in _PAGES else kind.removesuffix("s")
    if single not in _PAGES or not name:
        close = nearest(kind, (*_PAGES, *_LISTS))
        remedy = f"did you mean {close}?" if close else "for example stream/logs, or events"
        raise Invalid(f"the console has no page {page!r}", field="TYPE/NAME", remedy=remedy)
    return f"/{_PAGES[single]}/{quote(name, safe='')}"


def signing_link(directory: Path, path: str) -> str:
    """A link that signs in the user of a local mesh once.

    Raises:
        Unavailable: no mesh runs there, or it has no console.
        Invalid: other users may read the key of its links.
    """
    try:
        address = str(json.loads((directory / READY_FILE.name).read_text())["console"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = "start one: braid dev --detach; or name a console: --console URL"
        raise Unavailable(f"no mesh runs in {directory}", remedy=remedy) from error
    if not address:
        raise Unavailable(f"the mesh in {directory} has no console", remedy="start it anew without --no-console")
    return sign_in_url(address, directory / "console", path, int(time.time() * 1_000))


def _checked(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise Invalid(f"{url!r} is no address", field="--console", remedy="for example https://braid.example.com")
    return url.rstrip("/")
