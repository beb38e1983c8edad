"""Requests of signed-in people: pages, live pages, questions and actions."""

from collections.abc import Sequence
from typing import Final

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from braid.api.registry.v1 import grant_pb2
from braid.kernel.errors import BraidError
from braid.rpc.documents import Document, Value, to_document
from console.server.doing.actions import ACTIONS, act, command_of
from console.server.json_text import json_bytes
from console.server.limits import SEND_SECONDS
from console.server.live.feeds import Feeds
from console.server.problems import problem_of
from console.server.reads import events
from console.server.reads.all_groups import every_group
from console.server.reads.lagmon import kept_lag
from console.server.reads.lease import explained
from console.server.reads.names import find_names
from console.server.reads.view import checked_params, whole_number
from console.server.views import view_kind
from console.server.web.guard import problem_response
from console.server.web.requests import Doorkeeper, read_body

_NO_PINGS: Final = 24 * 3_600  # streams have heartbeats of their own, which pages can see
_TIME_MS_MAX: Final = 1 << 52


class Api:
    """Answers signed-in people, each with their own rights."""

    def __init__(self, doorkeeper: Doorkeeper, feeds: Feeds) -> None:
        self._doorkeeper = doorkeeper
        self._feeds = feeds

    def routes(self) -> Sequence[BaseRoute]:
        """The addresses."""
        return (
            Route("/api/views/{view}", self._view, methods=["GET"]),
            Route("/api/live/{view}", self._live, methods=["GET"]),
            Route("/api/why", self._why, methods=["GET"]),
            Route("/api/search", self._search, methods=["GET"]),
            Route("/api/can", self._can, methods=["GET"]),
            Route("/api/history", self._history, methods=["GET"]),
            Route("/api/events", self._events, methods=["GET"]),
            Route("/api/groups", self._groups, methods=["GET"]),
            Route("/api/actions", self._actions, methods=["GET"]),
            Route("/api/actions/{verb}", self._act, methods=["POST"]),
            Route("/api/actions/{verb}/cli", self._command, methods=["POST"]),
        )

    async def _view(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        kind = view_kind(request.path_params["view"])
        params = kind.params(request.query_params.multi_items())
        feed = await self._feeds.feed(session, kind, params)
        return _json(feed.document())

    async def _live(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        kind = view_kind(request.path_params["view"])
        given = [(name, value) for name, value in request.query_params.multi_items() if name != "last_event_id"]
        params = kind.params(given)
        self._feeds.check_room(session)
        feed = await self._feeds.feed(session, kind, params)
        last = request.headers.get("last-event-id") or request.query_params.get("last_event_id", "")
        stream = self._feeds.stream(session, feed, last)
        return EventSourceResponse(stream, ping=_NO_PINGS, send_timeout=SEND_SECONDS)

    async def _why(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        params = checked_params(request.query_params.multi_items(), ("group", "lease", "at_ms"))
        at_ms = whole_number(params, "at_ms", _TIME_MS_MAX)
        reader = session.identity.reader
        return _json(await explained(reader, params.get("lease", ""), params.get("group", ""), at_ms))

    async def _search(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        params = checked_params(request.query_params.multi_items(), ("q", "limit"))
        feed = await self._feeds.feed(session, view_kind("search"), {})
        return _json(find_names(feed.parts, params))

    async def _can(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        params = checked_params(request.query_params.multi_items(), ("verb", "kind", "name"))
        asked = grant_pb2.CheckAccessRequest(**params)
        found = await session.identity.reader.one("registry", "CheckAccess", asked, grant_pb2.CheckAccessResponse)
        return _json(to_document(found))

    async def _history(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        known = ("group", "stream", "lane", "since_ms", "until_ms", "step_ms")
        params = checked_params(request.query_params.multi_items(), known)
        return _json(await kept_lag(session.identity.reader, params))

    async def _events(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        params = checked_params(request.query_params.multi_items(), (*events.PARAMETERS, "page_token"))
        return _json(await events.page_back(session.identity.reader, params))

    async def _groups(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        params = checked_params(request.query_params.multi_items(), ("q", "sort"))
        return StreamingResponse(await every_group(session.identity.reader, params), media_type="application/json")

    async def _actions(self, request: Request) -> Response:
        self._doorkeeper.session(request)
        listed: list[Value] = [each.document() for each in ACTIONS.values()]
        return _json({"actions": listed})

    async def _act(self, request: Request) -> Response:
        session = self._doorkeeper.changing(request)
        body = await read_body(request)
        outcome = await act(session.identity.reader, request.path_params["verb"], body)
        if outcome.error is not None:
            return problem_response(problem_of(outcome.error), outcome.command)
        return _json(outcome.answer)

    async def _command(self, request: Request) -> Response:
        self._doorkeeper.changing(request)
        return _json({"cli": command_of(request.path_params["verb"], await read_body(request))})


def _json(document: Document) -> Response:
    return Response(json_bytes(document), media_type="application/json")


async def braid_error(request: Request, error: Exception) -> Response:
    """The answer to a request that ended with an error of the mesh, or of this server."""
    assert isinstance(error, BraidError), "registered for them alone"
    return problem_response(problem_of(error))
