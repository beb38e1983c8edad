"""The groups that read each stream: a change of a stream's channels concerns these groups. Pure.

A group ignores a view of the registry that is older than its history, as a new leader may have one. Such groups are
concerned once more when the view has reached their history: what changed in between concerned others.
"""

from collections.abc import Collection, Sequence

from services.assigner.model.group import Group


class StreamReaders:
    """Names of groups by stream, followed from one state of a group to the next."""

    def __init__(self) -> None:
        self._groups: dict[str, set[str]] = {}
        self._streams: dict[str, tuple[str, ...]] = {}
        self._ahead: dict[str, int] = {}  # the registry revision of each history that is ahead of the view

    def follow(self, state: Group, revision: int) -> None:
        """Takes a group as it is now. `revision` is that of the registry's view; 0 before there is one."""
        name, streams = state.name, state.spec.streams if state.spec is not None else ()
        before = self._streams.get(name, ())
        if streams != before:
            for stream in before:
                self._groups[stream].discard(name)
                if not self._groups[stream]:
                    del self._groups[stream]
            for stream in streams:
                self._groups.setdefault(stream, set()).add(name)
            self._streams[name] = streams
        if state.registry_revision > revision:
            self._ahead[name] = state.registry_revision

    def concerned(self, streams: Collection[str], revision: int) -> Sequence[str]:
        """Returns the groups that a view at this revision concerns, in which these streams have changed; sorted."""
        reached = [name for name, history in self._ahead.items() if history <= revision]
        for name in reached:
            del self._ahead[name]
        return sorted({*reached, *(name for stream in streams for name in self._groups.get(stream, ()))})
