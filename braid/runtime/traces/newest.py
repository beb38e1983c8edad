"""The newest trace among changes of histories, for streams that tell other services of them."""

from collections.abc import Collection

from braid.runtime.histories.aggregates import Aggregates
from braid.runtime.histories.kinds import Change, Reloaded


class NewestTrace:
    """Follows a service's changes; keeps one trace, whatever comes. To be closed."""

    def __init__(self, aggregates: Aggregates, kinds: Collection[str]) -> None:
        """Follows histories of these kinds, by name."""
        self._kinds = kinds
        self._found = ""
        self.close = aggregates.subscribe(self._changed)

    def take(self) -> str:
        """Returns the `traceparent` of the newest traced event since the last time; empty without one."""
        found, self._found = self._found, ""
        return found

    def _changed(self, change: Change | Reloaded) -> None:
        if isinstance(change, Change) and change.history.kind in self._kinds:
            for each in change.events:
                self._found = each.context.trace or self._found
