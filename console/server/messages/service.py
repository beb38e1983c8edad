"""The Messages page's questions, each with the caller's rights first, its turn, and its bounds."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from braid.client.reading.channel_addresses import ChannelPlace
from braid.kernel.access.roles import Action
from braid.kernel.errors import NotFound
from braid.kernel.ids import ChannelId
from braid.kernel.ports import Host, Kafka, KafkaRecord
from braid.rpc.documents import Document
from console.server.limits import MESSAGES_LARGE_AT_ONCE, MESSAGES_SHOWN_BYTES
from console.server.messages.asked import Asked, Start
from console.server.messages.browsing import Browsing, logs_of
from console.server.messages.decoding import AUTO
from console.server.messages.draft import Draft, produce_command
from console.server.messages.places import places_of
from console.server.messages.producing import produce, receipt_document
from console.server.messages.rights import require
from console.server.messages.rows import whole
from console.server.messages.schemas.decoded import DecodedValues
from console.server.messages.schemas.registry import Fetch, SchemaRegistry
from console.server.messages.single import one_record
from console.server.messages.tail import Tail
from console.server.messages.tails import Following, Tails
from console.server.messages.turns import Turns
from console.server.messages.twins import browse_command, consume_command, moment
from console.server.messages.values import PlainValues, Values
from console.server.signing.sessions import Session


class MessagesSettings(NamedTuple):
    """The way in which this console reads records.

    Attributes:
        kafka: Clients of clusters, with this process's own profiles.
        trace_link: Where a trace is shown, with `{trace_id}` in it; empty for nowhere.
        fetch_schema: Asks the schema registry; None where there is none.
        load: Imports what clients of clusters are made of, in a thread, since it takes half a second.
    """

    kafka: Kafka
    trace_link: str = ""
    load: Callable[[], object] | None = None
    fetch_schema: Fetch | None = None


class RecordAsked(NamedTuple):
    """Names one record: its channel, its partition and its offset; and the form that its value is shown in."""

    channel: ChannelId
    partition: int
    offset: int
    form: str


class Messages:
    """Reads records of streams for people."""

    def __init__(self, host: Host, settings: MessagesSettings) -> None:
        self._host = host
        self._settings = settings
        self._kafka = settings.kafka
        self._turns = Turns(host.clock)
        self._large = asyncio.Semaphore(MESSAGES_LARGE_AT_ONCE)
        self._tails = Tails(host)
        self._schemas = SchemaRegistry(host.clock, settings.fetch_schema) if settings.fetch_schema else None
        self._loaded = False

    async def browse(self, session: Session, stream: str, asked: Asked) -> Document:
        """Records of a stream, and where the next answer goes on.

        Raises:
            AccessDenied: the caller may not consume the stream.
            Exhausted: too much is asked at once.
            BraidError: a service does not answer, or there is no such stream.
        """
        reader = session.identity.reader
        with self._turns.turn(session.id):
            await require(reader, Action.CONSUME, stream)
            places = await places_of(reader, stream, asked.lane, asked.cluster)
            await self._load()
            found = await Browsing(self._host, self._kafka, asked, places, self._values(asked.form)).answer()
        cli = browse_command(stream, asked, found.oldest_ms)
        return {**found.document, "cli": cli, "trace_link": self._settings.trace_link}

    async def tail(self, session: Session, stream: str, asked: Asked) -> AsyncIterator[bytes]:
        """Begins to follow a stream; what it returns yields server-sent events until the browser leaves.

        Raises:
            AccessDenied: the caller may not consume the stream.
            Exhausted: too many tails are open.
        """
        reader = session.identity.reader
        self._tails.check_room(session)
        with self._turns.turn(session.id):
            await require(reader, Action.CONSUME, stream)
            places = await places_of(reader, stream, asked.lane, asked.cluster)
            logs_of(places.channels, asked)
            await self._load()
        hello: Document = {
            "cli": consume_command(stream, asked, "latest"),
            "trace_link": self._settings.trace_link,
            "partitions": len(logs_of(places.channels, asked)),
        }
        tail = Tail(self._host, self._kafka, asked, self._values(asked.form))
        return self._tails.stream(session, Following(stream, asked, tail, places.channels), hello)

    async def record(self, session: Session, asked: RecordAsked) -> Document:
        """One record in full. Raises as `browse`, and `NotFound` where there is none at that offset."""
        place, record = await self._one(session, asked)
        values = self._values(asked.form)
        await values.prepare([record])
        shown = values.whole(record, MESSAGES_SHOWN_BYTES)
        channel = asked.channel
        start = Start("offset", asked.offset)
        one = Asked(start, channel.lane, partition=asked.partition, filter_text=f"offset={asked.offset}")
        cli = consume_command(channel.stream, one, moment(record.timestamp), 1)
        return {**whole(place, asked.partition, record, shown), "cli": cli, "trace_link": self._settings.trace_link}

    async def download(self, session: Session, asked: RecordAsked) -> bytes:
        """The value of one record, whole. Raises as `record`."""
        _, record = await self._one(session, asked)
        if record.value is None:
            raise NotFound("the record has no value: it marks its key as deleted", field="offset")
        return record.value

    async def produce(self, session: Session, stream: str, draft: Draft) -> Document:
        """Sends one record, and says where it lies.

        Raises:
            AccessDenied: the caller may not produce to the stream.
            DeliveryUnknown: no acknowledgement came in time; the record may have arrived.
            BraidError: it was not sent, and why.
        """
        reader = session.identity.reader
        with self._turns.turn(session.id):
            await require(reader, Action.PRODUCE, stream)
            await self._load()
            receipt = await produce(self._host, self._kafka, reader, stream, draft)
        return {**receipt_document(receipt), "cli": produce_command(stream, draft)}

    async def _one(self, session: Session, asked: RecordAsked) -> tuple[ChannelPlace, KafkaRecord]:
        reader, channel = session.identity.reader, asked.channel
        with self._turns.turn(session.id):
            await require(reader, Action.CONSUME, channel.stream)
            # The topic is what the mesh says of a channel of the stream that the caller may consume, never a request's.
            places = await places_of(reader, channel.stream, channel.lane)
            place = next((each for each in places.channels if each.channel == str(channel)), None)
            if place is None or asked.partition >= place.partitions:
                remedy = "it may have been deleted: ask for the newest records"
                raise NotFound(f"{channel} has no partition {asked.partition}", field="channel", remedy=remedy)
            await self._load()
            async with self._large:
                return place, await one_record(self._kafka, place, asked.partition, asked.offset)

    def _values(self, form: str) -> Values:
        if self._schemas is None or form != AUTO:
            return PlainValues(form)
        return DecodedValues(self._schemas)

    async def _load(self) -> None:
        if self._settings.load is not None and not self._loaded:
            await asyncio.to_thread(self._settings.load)
            self._loaded = True
