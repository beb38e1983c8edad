"""The places of a partition's copies in the twin, and their reassignment to other brokers (KIP-455)."""

from collections.abc import Collection, Iterator, Sequence

from braid.kernel.ports import Reassignment


def spread(brokers: Sequence[int], partitions: int, copies: int) -> Iterator[tuple[int, ...]]:
    """Returns the replicas of a new topic's partitions: each begins at the next broker."""
    for number in range(partitions):
        yield tuple(brokers[(number + each) % len(brokers)] for each in range(copies))


class Replicas:
    """The copies of one partition, by broker.

    Attributes:
        in_step: Brokers with a whole copy, in order of preference.
        adding: Brokers whose copy is being made.
    """

    def __init__(self, brokers: Sequence[int]) -> None:
        self.in_step = tuple(brokers)
        self.adding: tuple[int, ...] = ()
        self.moving = False
        self._target = self.in_step
        self._due_ms = 0

    @property
    def all(self) -> Sequence[int]:
        """Brokers that keep a copy, or part of one, wanted ones first."""
        return (*self._target, *(broker for broker in self.in_step if broker not in self._target))

    @property
    def reassignment(self) -> Reassignment | None:
        """The reassignment under way."""
        if not self.moving:
            return None
        removing = tuple(broker for broker in self.in_step if broker not in self._target)
        return Reassignment(self.all, self.adding, removing)

    def copies(self, stopped: Collection[int]) -> list[int]:
        """Brokers with a copy in step that serve; the first one leads."""
        return [broker for broker in self.in_step if broker not in stopped]

    def leader(self, stopped: Collection[int]) -> int:
        """The broker that leads; -1 while none can."""
        return next(iter(self.copies(stopped)), -1)

    def is_thin(self, stopped: Collection[int]) -> bool:
        """Whether fewer copies are in step than there should be."""
        return bool(self.adding or stopped) and len(self.copies(stopped)) < len(self.all)

    def reassign(self, brokers: Sequence[int], due_ms: int) -> None:
        """Starts a reassignment; one that was under way is given up."""
        target = tuple(brokers)
        if target == (self._target if self.moving else self.in_step):
            return
        self._target, self._due_ms = target, due_ms
        self.adding = tuple(broker for broker in target if broker not in self.in_step)
        self.moving = True

    def copy(self, now_ms: int, serving: Collection[int]) -> bool:
        """Completes the reassignment if its new copies can be made by now. Returns whether it did."""
        if self.adding and (now_ms < self._due_ms or not set(self._target) <= set(serving)):
            return False
        self.in_step, self.adding, self.moving = self._target, (), False
        return True
