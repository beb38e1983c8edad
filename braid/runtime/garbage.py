"""Keeps full garbage collections of a service's process short: they look at new objects, and rarely at all of them.

A lag monitor of 45,000 groups has half a million objects that Python's garbage collector would look through every few
seconds, 0.16 s each time, in which no call is answered. So what outlives a full collection is taken out of its sight
(`gc.freeze`), as soon as that is much. Reference counts still free such objects; only cycles among them stay. After a
number of freezes the collector looks at all of them again; if they are too many for that, no more are frozen. So the
memory of cycles is bounded.
"""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from braid.kernel.limits.runtime import GC_FREEZES_MAX, GC_FROZEN_SHARE, GC_LOOKED_AT_MAX, GC_OBJECTS_MAX

_OLDEST: Final = 2  # the generation that a full collection looks at


class ShortCollections:
    """A callback of the garbage collector that freezes what outlived a full collection.

    Attributes:
        freezes: Their number since the collector last looked at all objects.
    """

    def __init__(self) -> None:
        self.freezes = 0
        self._looks_at_all = False

    def __call__(self, phase: str, found: Mapping[str, int]) -> None:
        """Takes what `gc.callbacks` are told of."""
        if phase != "stop" or found["generation"] != _OLDEST:
            return
        if self._looks_at_all:
            gc.freeze()
            self.freezes, self._looks_at_all = 1, False
            return
        survivors = len(gc.get_objects(_OLDEST))
        if survivors < GC_OBJECTS_MAX or survivors < (frozen := gc.get_freeze_count()) // GC_FROZEN_SHARE:
            return
        if self.freezes < GC_FREEZES_MAX:
            gc.freeze()
            self.freezes += 1
        elif frozen <= GC_LOOKED_AT_MAX:
            gc.unfreeze()  # the next full collection finds the cycles that stayed
            self._looks_at_all = True


def freeze_loaded() -> int:
    """Takes all that is loaded by now out of the garbage collector's sight; returns how many objects that are.

    A process keeps its modules to its end. To look through them again and again would stop all its calls for 30 ms and
    more each time.
    """
    gc.collect()
    gc.freeze()
    return gc.get_freeze_count()


@contextmanager
def loading() -> Iterator[None]:
    """Collects no garbage while the block loads, then takes what it has loaded out of the collector's sight.

    Histories of 45,000 groups are two million objects. While they are read the collector would look through all of them
    a dozen times, for seconds each, and find nothing. If they change, their memory is freed as usual.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def short_collections() -> Iterator[ShortCollections]:
    """Keeps full collections short until the block ends."""
    watching = ShortCollections()
    gc.callbacks.append(watching)
    try:
        yield watching
    finally:
        gc.callbacks.remove(watching)
