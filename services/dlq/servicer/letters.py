"""Answers requests about dead letters from this replica's index and from their clusters; any replica serves them."""

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from braid.api.dlq.v1 import dead_letter_pb2
from braid.api.dlq.v1 import dlq_service_pb2 as api
from braid.kernel.errors import ClusterUnavailable, Invalid, NotFound
from braid.kernel.filters.grammar import EVERYTHING, Filter
from braid.kernel.ids import read_number
from braid.kernel.limits.dlq import DLQ_SCAN_ROWS, DLQ_SCAN_SECONDS
from braid.kernel.limits.names import NUMBER_DIGITS_MAX, PAGE_SIZE_MAX
from braid.kernel.limits.runtime import PAGE_SIZE_DEFAULT
from braid.kernel.ports import Caller, TopicPartition
from braid.runtime.replica import Replica
from services.dlq.codec.letters import content_message
from services.dlq.index.conditions import condition_of
from services.dlq.index.letter_index import LetterIndex, NewestFirst
from services.dlq.index.tail import Tail
from services.dlq.model.filter import matches, parse_filter
from services.dlq.model.letters import Letter, LetterPlace
from services.dlq.peers import ChannelFollower, Streams
from services.dlq.reconciler.copies import Copies
from services.dlq.servicer.letter_states import LetterStates

_NO_VIEW = "registry"  # told as catching up while not even the channels are known


class _Token(NamedTuple):
    """The start of a page: the row before it, and the number of letters on earlier pages."""

    after: NewestFirst | None
    before: int


class _Page(NamedTuple):
    """The letters of a page, the next page's start, and the number of matches; with `incomplete`, at least that
    many."""

    letters: Sequence[Letter]
    token: _Token | None
    total: int
    incomplete: bool


class Letters:
    """Handlers of the RPCs that read dead letters."""

    def __init__(
        self,
        replica: Replica,
        index: LetterIndex,
        tail: Tail,
        follower: ChannelFollower,
        copies: Copies,
        streams: Streams,
        states: LetterStates,
    ) -> None:
        self._replica = replica
        self._index = index
        self._tail = tail
        self._follower = follower
        self._copies = copies
        self._streams = streams
        self._states = states

    async def list_dead_letters(
        self, request: api.ListDeadLettersRequest, caller: Caller
    ) -> api.ListDeadLettersResponse:
        """Lists dead letters, newest first. Raises `Invalid`."""
        if request.page_size < 0:
            raise Invalid(
                f"a page cannot have {request.page_size} items", field="page_size", remedy="use 0 for the default"
            )
        filter = parse_filter(request.filter, "filter")
        size = min(request.page_size or PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX)
        token = _read_token(request.page_token)
        if filter == EVERYTHING:
            page = await self._page(request.stream, token, size)
        else:
            page = await self._scan(request.stream, filter, token, size)
        return api.ListDeadLettersResponse(
            letters=await self._states.messages(page.letters),
            next_page_token=_token(page.token) if page.token else "",
            total=page.total,
            total_incomplete=page.incomplete,
            catching_up=self._tail.catching_up() if self._tail.heard else [_NO_VIEW],
        )

    async def get_dead_letter(
        self, request: api.GetDeadLetterRequest, caller: Caller
    ) -> dead_letter_pb2.DeadLetterContent:
        """Returns one letter with its content.

        Raises:
            NotFound: it is not indexed, or its copy is no longer in the log.
            ClusterUnavailable: the copy's cluster does not answer.
        """
        place = LetterPlace.parse(request.name)
        letter = await self._replica.host.tasks.run_blocking(partial(self._index.get, place))
        view = self._follower.view
        cluster = view.clusters.get(letter.cluster) if view is not None and letter is not None else None
        if letter is None or cluster is None:
            raise await self._missing(place)
        partition = TopicPartition(letter.topic, place.partition)
        try:
            record = (await self._copies.read(cluster, partition, [place.offset])).get(place.offset)
        except ClusterUnavailable as error:
            raise ClusterUnavailable(
                f"{place} lies on cluster {letter.cluster}, which does not answer: {error.message}",
                remedy="it is kept there; ask again when the cluster is back: braid get clusters",
            ) from error
        if record is None:
            raise await self._missing(place)
        (message,) = await self._states.messages([letter])
        return content_message(message, record)

    async def _missing(self, place: LetterPlace) -> NotFound:
        """The error that says why a letter was not found. Raises `NotFound` if its stream does not exist either."""
        hours = await self._streams.retention_hours(place.stream, "name")
        away = self._tail.catching_up()
        unread = f"; not everything on {', '.join(away)} is indexed yet" if away else ""
        return NotFound(
            f"there is no dead letter {place}: stream {place.stream} keeps them for {hours} h{unread}",
            field="name",
            remedy="list them: braid get deadletters",
        )

    async def _page(self, stream: str, token: _Token, size: int) -> _Page:
        run = self._replica.host.tasks.run_blocking
        found = await run(partial(self._index.newest, stream, token.after, size + 1))
        total = await run(partial(self._index.count, stream))
        more = _Token(_order(found[size - 1]), token.before + size) if len(found) > size else None
        return _Page(found[:size], more, total, incomplete=False)

    async def _scan(self, stream: str, filter: Filter, token: _Token, size: int) -> _Page:
        """The next letters that match, and how many there are, as far as the time limit allows."""
        clock, wanted = self._replica.host.clock, condition_of(filter)
        deadline = clock.elapsed() + DLQ_SCAN_SECONDS
        found: list[Letter] = []
        matching, at = 0, token.after
        while True:
            look = partial(self._index.scan, stream, at, DLQ_SCAN_ROWS, wanted)
            letters, at = await self._replica.host.tasks.run_blocking(look)
            matched = [letter for letter in letters if matches(filter, letter)]
            matching += len(matched)
            found += matched[: size + 1 - len(found)]
            if at is None or clock.elapsed() >= deadline:
                break
        more = None
        if len(found) > size:
            more = _Token(_order(found[size - 1]), token.before + size)
        elif at is not None:
            more = _Token(at, token.before + len(found))
        return _Page(found[:size], more, token.before + matching, incomplete=at is not None)


def _order(letter: Letter) -> NewestFirst:
    return NewestFirst(letter.time_ms, letter.place)


def _token(token: _Token) -> str:
    assert token.after is not None, "only a first page has no row before it"
    return f"{token.after.time_ms}/{token.after.place}/{token.before}"


def _read_token(text: str) -> _Token:
    if not text:
        return _Token(None, 0)
    time_ms, _, rest = text.partition("/")
    place, _, number = rest.rpartition("/")
    before = read_number(number)
    with contextlib.suppress(ValueError, Invalid):
        if before is not None and len(time_ms) <= NUMBER_DIGITS_MAX:
            return _Token(NewestFirst(int(time_ms), LetterPlace.parse(place)), before)
    remedy = "pass next_page_token of the last page"
    raise Invalid("not a token of this method", field="page_token", remedy=remedy)
