"""Requests for records of streams: a page of them, and one in full or as a download."""

from collections.abc import Sequence
from typing import Final

from sse_starlette import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from braid.kernel.errors import BraidError, Invalid, Unsupported
from braid.kernel.ids import ChannelId, check_name
from console.server.json_text import json_bytes
from console.server.limits import SEND_SECONDS
from console.server.messages.asked import read_asked, read_partition, read_start
from console.server.messages.decoding import AUTO, check_form
from console.server.messages.draft import produce_command, read_draft
from console.server.messages.service import Messages, RecordAsked
from console.server.messages.twins import browse_command, consume_command, line
from console.server.problems import problem_of
from console.server.reads.view import checked_params
from console.server.web.guard import problem_response
from console.server.web.requests import Doorkeeper, read_body

_NO_PINGS: Final = 24 * 3_600  # tails have heartbeats of their own, which pages can see
_TAIL: Final = ("lane", "cluster", "partition", "filter", "form")
_RECORD: Final = ("channel", "partition", "offset", "form")


class MessageRoutes:
    """Answers requests for records of streams.

    Args:
        doorkeeper: Finds sessions.
        messages: Reads records; None where this console reaches no brokers.
    """

    def __init__(self, doorkeeper: Doorkeeper, messages: Messages | None) -> None:
        self._doorkeeper = doorkeeper
        self._known = messages

    def routes(self) -> Sequence[BaseRoute]:
        """The addresses."""
        return (
            Route("/api/messages/{stream}", self._browse, methods=["POST"]),
            Route("/api/messages/{stream}/produce", self._produce, methods=["POST"]),
            Route("/api/messages/{stream}/produce/cli", self._produce_command, methods=["POST"]),
            Route("/api/messages/{stream}/tail", self._tail, methods=["GET"]),
            Route("/api/messages/{stream}/record", self._record, methods=["GET"]),
            Route("/api/messages/{stream}/download", self._download, methods=["GET"]),
        )

    @property
    def _messages(self) -> Messages:
        if self._known is None:
            raise Unsupported("this console reads no records", remedy="use `braid consume`")
        return self._known

    async def _browse(self, request: Request) -> Response:
        session = self._doorkeeper.changing(request)
        stream = check_name(request.path_params["stream"], "stream")
        asked = read_asked(await read_body(request))
        try:
            answer = await self._messages.browse(session, stream, asked)
        except BraidError as error:
            return problem_response(problem_of(error), browse_command(stream, asked))
        return Response(json_bytes(answer), media_type="application/json")

    async def _produce(self, request: Request) -> Response:
        session = self._doorkeeper.changing(request)
        stream = check_name(request.path_params["stream"], "stream")
        draft = read_draft(await read_body(request))
        try:
            answer = await self._messages.produce(session, stream, draft)
        except BraidError as error:
            return problem_response(problem_of(error), produce_command(stream, draft))
        return Response(json_bytes(answer), media_type="application/json")

    async def _produce_command(self, request: Request) -> Response:
        self._doorkeeper.changing(request)
        stream = check_name(request.path_params["stream"], "stream")
        command = produce_command(stream, read_draft(await read_body(request)))
        return Response(json_bytes({"cli": command}), media_type="application/json")

    async def _tail(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        stream = check_name(request.path_params["stream"], "stream")
        asked = read_asked({**checked_params(request.query_params.multi_items(), _TAIL)})
        try:
            events = await self._messages.tail(session, stream, asked)
        except BraidError as error:
            return problem_response(problem_of(error), consume_command(stream, asked, "latest"))
        return EventSourceResponse(events, ping=_NO_PINGS, send_timeout=SEND_SECONDS)

    async def _record(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        asked = _record_asked(request)
        try:
            answer = await self._messages.record(session, asked)
        except BraidError as error:
            return problem_response(problem_of(error), _twin(asked))
        return Response(json_bytes(answer), media_type="application/json")

    async def _download(self, request: Request) -> Response:
        session = self._doorkeeper.session(request)
        asked = _record_asked(request)
        value = await self._messages.download(session, asked)
        name = f"{str(asked.channel).replace('/', '-')}-{asked.partition}-{asked.offset}.bin"
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        return Response(value, headers=headers, media_type="application/octet-stream")


def _record_asked(request: Request) -> RecordAsked:
    params = checked_params(request.query_params.multi_items(), _RECORD)
    channel = ChannelId.parse(params.get("channel", ""), "channel")
    if channel.stream != request.path_params["stream"]:
        raise Invalid("is one of another stream", field="channel", remedy="send back what an answer says")
    partition = read_partition(params.get("partition"), "partition")
    offset = read_start(f"offset:{params.get('offset', '')}", "offset").value
    return RecordAsked(channel, partition or 0, offset, check_form(params.get("form", AUTO), "form"))


def _twin(asked: RecordAsked) -> str:
    channel = asked.channel
    return line(["consume", channel.stream, f"--lane={channel.lane}", f"--partition={asked.partition}", "-o", "json"])
