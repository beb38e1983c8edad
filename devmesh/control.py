"""The control socket of a running mesh: one JSON line asks, one answers. Errors travel with their place in the tree."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from braid.kernel.errors import BraidError, Exhausted, Invalid, NotFound, Refused, Unavailable
from devmesh.files import remove
from devmesh.limits import DEV_LINE_BYTES_MAX

Answer = Mapping[str, Any]
Handler = Callable[[str, str], Awaitable[Answer]]

_ERRORS: Final[Mapping[str, type[BraidError]]] = {
    cls.reason: cls for cls in (Exhausted, Invalid, NotFound, Refused, Unavailable)
}


class ControlServer:
    """Serves the control socket of a mesh.

    Args:
        path: Of the socket.
        handle: Gets a verb and a name ('' where the verb takes none); returns what to answer or raises a `BraidError`.
    """

    def __init__(self, path: Path, handle: Handler) -> None:
        self._path = path
        self._handle = handle
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        """Listens; the caller holds the directory's lock, so what is left of an earlier socket is removed."""
        remove(self._path)
        self._server = await asyncio.start_unix_server(self._serve, self._path, limit=DEV_LINE_BYTES_MAX)
        self._path.chmod(0o600)

    def close(self) -> None:
        """Stops listening and removes the socket."""
        if self._server is not None:
            self._server.close()
            remove(self._path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answer(await reader.readline())
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        except (ConnectionError, ValueError):
            pass  # the asker left, or sent no line: nobody waits for an answer
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            return {"ok": True, **await self._handle(str(request["verb"]), str(request.get("name", "")))}
        except BraidError as error:
            return {"ok": False, **error_document(error)}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return {"ok": False, **error_document(Invalid(f"this is no request: {error}"))}


async def ask(path: Path, verb: str, name: str = "") -> Answer:
    """Asks a running mesh.

    Raises:
        Unavailable: no mesh listens there, or it ended before it answered.
        BraidError: what it answered.
    """
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=DEV_LINE_BYTES_MAX)
    except OSError as error:
        raise Unavailable(f"no mesh answers at {path}", remedy="it is just starting or ending: try again") from error
    try:
        writer.write(json.dumps({"verb": verb, "name": name}).encode() + b"\n")
        line = await reader.readline()
    except OSError as error:
        raise Unavailable(f"the mesh ended before it answered `{verb}`") from error
    finally:
        writer.close()
    if not line:
        raise Unavailable(f"the mesh ended before it answered `{verb}`")
    answer: dict[str, Any] = json.loads(line)
    if answer.pop("ok"):
        return answer
    raise error_from(answer)


def error_document(error: BraidError) -> dict[str, str]:
    """An error as JSON can carry it."""
    return {"reason": error.reason, "message": error.message, "remedy": error.remedy, "field": error.field}


def error_from(document: Answer) -> BraidError:
    """The error in a document; one of another class of its code where this side does not know its reason."""
    cls = _ERRORS.get(str(document["reason"]), Unavailable)
    return cls(str(document["message"]), remedy=str(document["remedy"]), field=str(document["field"]))
