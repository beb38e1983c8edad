"""Schemas by their id, asked of a registry once and kept: a bounded number, each within a bounded time.

The registry's address is a setting of the process. A record's sender chooses the id and nothing else, so a flood of
made-up ids costs a bounded number of requests for each answer, and what a registry does not know is remembered.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, cast
from urllib.parse import quote

from braid.kernel.errors import BraidError, Unavailable
from braid.kernel.ports import Clock
from console.server.limits import (
    SCHEMA_AWAY_SECONDS,
    SCHEMA_FAILED_SECONDS,
    SCHEMA_REFERENCES_MAX,
    SCHEMA_SECONDS,
    SCHEMAS_AT_ONCE,
    SCHEMAS_KEPT_MAX,
)
from console.server.messages.schemas.decoders import Decoder, Described, decoder_of

Fetch = Callable[[str], Awaitable[bytes]]  # the body at a path of the registry; raises a `BraidError` saying why not
_PROTOBUF: Final = "PROTOBUF"
_JSON: Final = "JSON"


class Unknown(NamedTuple):
    """A schema that cannot be used, and when it is asked for again (`Clock.elapsed`)."""

    reason: str
    again_at: float


class SchemaRegistry:
    """The schemas of one registry.

    Args:
        clock: Of this process.
        fetch: Asks the registry.
    """

    def __init__(self, clock: Clock, fetch: Fetch) -> None:
        self._clock = clock
        self._fetch = fetch
        self._known: OrderedDict[int, Decoder | Unknown] = OrderedDict()
        self._room = asyncio.Semaphore(SCHEMAS_AT_ONCE)
        self._away = Unknown("", float("-inf"))  # while the registry does not answer, answers do not wait for it

    async def load(self, ids: Iterable[int]) -> None:
        """Asks for those schemas that are not known. Never raises: `find` says what went wrong."""
        await asyncio.gather(*(self._load(each) for each in ids if self.wants(each)))

    def wants(self, id: int) -> bool:
        """Whether a schema has to be asked for, and the registry may be asked now."""
        if self._clock.elapsed() < self._away.again_at:
            return False
        found = self._known.get(id)
        return found is None or (isinstance(found, Unknown) and self._clock.elapsed() >= found.again_at)

    def find(self, id: int) -> Decoder | Unknown:
        """The decoder of a schema, or why there is none."""
        found = self._known.get(id)
        if found is None and self._clock.elapsed() < self._away.again_at:
            return self._away
        if found is None:
            return Unknown(f"schema {id} was not asked for: too many schemas in one answer", 0.0)
        self._known.move_to_end(id)
        return found

    async def _load(self, id: int) -> None:
        try:
            async with asyncio.timeout(SCHEMA_SECONDS), self._room:
                self._keep(id, decoder_of(await self._described(id)))
        except TimeoutError:
            self._rest(f"the schema registry did not answer within {SCHEMA_SECONDS:g} s")
        except Unavailable as error:
            self._rest(error.message)
        except BraidError as error:
            self._fail(id, f"schema {id}: {error.message}")
        except ValueError as error:
            self._fail(id, f"schema {id}: {error}")
        except (KeyError, TypeError, OverflowError) as error:
            self._fail(id, f"schema {id}: the schema registry's answer cannot be read: {type(error).__name__}")

    def _rest(self, reason: str) -> None:
        self._away = Unknown(reason, self._clock.elapsed() + SCHEMA_AWAY_SECONDS)

    def _fail(self, id: int, reason: str) -> None:
        self._keep(id, Unknown(reason, self._clock.elapsed() + SCHEMA_FAILED_SECONDS))

    def _keep(self, id: int, found: Decoder | Unknown) -> None:
        self._known[id] = found
        self._known.move_to_end(id)
        while len(self._known) > SCHEMAS_KEPT_MAX:
            self._known.popitem(last=False)

    async def _described(self, id: int) -> Described:
        path = f"/schemas/ids/{id}"
        found = await self._ask(path)
        kind = str(found.get("schemaType", "AVRO"))
        if kind == _PROTOBUF:  # as text it could only be compiled
            found = {**found, **await self._ask(f"{path}?format=serialized")}
        references: dict[str, str] = {}
        if kind != _JSON:  # its values are read without their schema
            await self._refer(found, kind, references)
        return Described(kind, str(found["schema"]), list(references.items()))

    async def _refer(self, schema: dict[str, object], kind: str, known: dict[str, str]) -> None:
        """Adds the schemas that one refers to, those first that others of them need."""
        named = schema.get("references") or []
        for each in cast("list[dict[str, object]]", named):
            name = str(each["name"])
            if name in known:
                continue
            if len(known) >= SCHEMA_REFERENCES_MAX:
                raise ValueError(f"it refers to more than {SCHEMA_REFERENCES_MAX} schemas")
            known[name] = ""  # its place is taken while its own are added, so a circle ends
            path = f"/subjects/{quote(str(each['subject']), safe='')}/versions/{int(cast('int', each['version']))}"
            found = await self._ask(path)
            if kind == _PROTOBUF:  # Karapace serializes schemas that are asked for by their id alone
                found = {**found, **await self._ask(f"/schemas/ids/{int(cast('int', found['id']))}?format=serialized")}
            await self._refer(found, kind, known)
            del known[name]
            known[name] = str(found["schema"])

    async def _ask(self, path: str) -> dict[str, object]:
        body = await self._fetch(path)
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise ValueError("the schema registry's answer is no JSON") from None
        if not isinstance(found, dict) or "schema" not in found:
            raise ValueError("the schema registry's answer has no schema")
        return cast("dict[str, object]", found)
