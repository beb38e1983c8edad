"""The actions that there are, and how one is carried out."""

import re
import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple

from braid.kernel.errors import BraidError, Invalid, NotFound
from braid.rpc.documents import Document, to_document
from console.server.doing import grouping, moving, others
from console.server.doing.action import Action
from console.server.reads.reader import Reader

_ALL: Final = (
    moving.MOVE,
    moving.CORDON,
    grouping.DRAIN,
    grouping.FREEZE,
    grouping.PIN,
    grouping.RESUME_LANE,
    grouping.RESET,
    others.SILENCE,
    others.UNSILENCE,
    others.REPLAY,
    others.PAUSE_REPLAY,
    others.RESUME_REPLAY,
    others.CANCEL_REPLAY,
    others.DECIDE,
)
ACTIONS: Final[Mapping[str, Action]] = {each.verb: each for each in _ALL}
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9-]{0,64}")


class Outcome(NamedTuple):
    """The outcome of an action: its answer, or its error, and the command that does the same."""

    command: str
    answer: Document
    error: BraidError | None = None


def action(verb: str) -> Action:
    """The action of a verb. Raises `NotFound` naming those there are."""
    found = ACTIONS.get(verb)
    if found is None:
        raise NotFound("there is no such action", field="verb", remedy=f"one of {', '.join(ACTIONS)}")
    return found


def command_of(verb: str, body: Document) -> str:
    """The command that does the same as a request. Raises `NotFound` or `Invalid`."""
    found = action(verb)
    given = found.given(body)
    found.call(given)  # says what is wrong with the arguments
    return _line(found.command(given))


async def act(reader: Reader, verb: str, body: Document) -> Outcome:
    """Carries a request out. Raises `NotFound` or `Invalid` where it is out of form, before anything is asked."""
    found = action(verb)
    given = found.given(body)
    call = found.call(given)
    found.check_confirmed(given, body)
    request_id = _request_id(body)
    line = _line(found.command(given))
    try:
        answer = await reader.change(call.service, call.method, call.request, call.response_type, request_id)
    except BraidError as error:
        return Outcome(line, {}, error)
    done = found.done(given, answer)
    result: Document = {"result": to_document(answer), "cli": line, "dry_run": given.dry_run, "summary": done}
    return Outcome(line, result)


def _line(words: list[str]) -> str:
    return shlex.join(["braid", *words])


def _request_id(body: Document) -> str:
    text = body.get("request_id", "")
    if not isinstance(text, str) or not _REQUEST_ID.fullmatch(text):
        raise Invalid("is no id", field="request_id", remedy="at most 64 letters, digits and hyphens")
    return text
