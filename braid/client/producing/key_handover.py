"""In a planned move, records that wait until an old channel has acknowledged the earlier ones of their key. Pure.

Every other record goes by the new route at once: a key waits for no other key, and a record without a key never waits.
"""

from collections.abc import Collection, Iterable, Sequence

from braid.client.producing.outbox import Pending
from braid.kernel.ids import ChannelId

_Key = tuple[str, bytes]  # with its lane: lanes do not wait for each other


class KeyHandover:
    """Tracks the hand-over from a new route's start until the dropped channels owe nothing; true while any owes."""

    def __init__(self) -> None:
        self._left: Collection[ChannelId] = ()
        self._owed: dict[_Key, int] = {}
        self._waiting: dict[_Key, list[Pending]] = {}

    def __bool__(self) -> bool:
        return bool(self._owed)

    def begin(self, left: Collection[ChannelId], unacknowledged: Iterable[Pending]) -> None:
        """Begins with the channels `left`, which get no more records.

        Forgets waiting records: ask about them again, in order.
        """
        self.end()
        self._left = left
        for record in unacknowledged:
            if record.key is not None and record.channel in left:
                key = record.lane, record.key
                self._owed[key] = self._owed.get(key, 0) + 1

    def takes(self, record: Pending) -> bool:
        """Whether a new record must wait; if so, it waits here."""
        if record.key is None:
            return False
        key = record.lane, record.key
        if key not in self._owed:
            return False
        self._waiting.setdefault(key, []).append(record)
        return True

    def settled(self, record: Pending) -> Sequence[Pending]:
        """Notes the fate of a record; returns those that waited for no other, in the order they came."""
        if record.key is None or record.channel not in self._left:
            return ()
        key = record.lane, record.key
        owed = self._owed.pop(key, 0)
        if owed > 1:
            self._owed[key] = owed - 1
        return self._waiting.pop(key, ()) if owed == 1 else ()

    def end(self) -> None:
        """Forgets every waiting record."""
        self._left = ()
        self._owed.clear()
        self._waiting.clear()
