"""Full garbage collections look at new objects, and no garbage stays for good."""

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from braid.runtime import garbage
from braid.runtime.garbage import freeze_loaded, loading, short_collections

MANY: Final = 2_000
SERVICES: Final = ("assigner", "dlq", "lagmon", "registry")
ROOT: Final = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def nothing_frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Freezes what the tests before left, so that it counts for nothing, and few objects are many."""
    frozen, on = gc.get_freeze_count(), gc.isenabled()
    gc.disable()
    gc.collect()
    gc.freeze()
    monkeypatch.setattr(garbage, "GC_OBJECTS_MAX", MANY)
    monkeypatch.setattr(garbage, "GC_FROZEN_SHARE", 10**9)
    yield
    gc.unfreeze()
    if frozen:
        gc.freeze()
    if on:
        gc.enable()


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self) -> None:
        self.own = self


def many() -> list[list[int]]:
    """Makes enough objects to be worth freezing."""
    return [[] for _ in range(MANY)]


def test_the_collector_no_longer_looks_at_what_is_loaded() -> None:
    frozen, loaded = gc.get_freeze_count(), many()
    assert freeze_loaded() >= frozen + len(loaded)
    assert len(gc.get_objects()) < len(loaded)


def test_what_outlives_a_full_collection_is_looked_at_once() -> None:
    with short_collections() as watching:
        loaded = many()
        gc.collect()
        assert watching.freezes == 1
        assert len(gc.get_objects()) < len(loaded)


def test_few_objects_are_not_frozen() -> None:
    with short_collections() as watching:
        kept = many()[: MANY // 2]
        gc.collect()
        assert watching.freezes == 0
        assert any(each is kept[0] for each in gc.get_objects())


def test_in_a_large_process_more_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [many() for _ in range(10)]
    gc.freeze()
    monkeypatch.setattr(garbage, "GC_FROZEN_SHARE", gc.get_freeze_count() // (3 * MANY))
    with short_collections() as watching:
        kept.append(many())
        gc.collect()
        assert watching.freezes == 0
        kept += [many() for _ in range(9)]
        gc.collect()
        assert watching.freezes == 1


def test_young_collections_freeze_nothing() -> None:
    with short_collections() as watching:
        kept = many()
        gc.collect(1)
        assert watching.freezes == 0
        assert len(kept) == MANY


@pytest.mark.parametrize(("looked_at", "found"), [(10**7, True), (0, False)])
def test_frozen_garbage_is_found_after_some_freezes(
    looked_at: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "GC_FREEZES_MAX", 3)
    monkeypatch.setattr(garbage, "GC_LOOKED_AT_MAX", looked_at)
    with short_collections() as watching:
        cycle = Cycle()
        died = weakref.ref(cycle)
        kept = [many()]
        gc.collect()
        del cycle
        for freezes in (2, 3):
            kept.append(many())
            gc.collect()
            assert watching.freezes == freezes
        assert died() is not None, "it is frozen"
        kept.append(many())
        gc.collect()  # ends with a thaw, unless that is too much
        gc.collect()
        assert (died() is None, watching.freezes) == (found, 1 if found else 3)
        assert (len(gc.get_objects()) < MANY) is found, "all are frozen again"
        assert len(kept) == 4


def test_no_garbage_is_collected_while_histories_are_loaded() -> None:
    frozen, collections = gc.get_freeze_count(), [0]
    gc.enable()
    gc.callbacks.append(lambda event, info: collections.append(collections.pop() + 1))
    try:
        with loading():
            loaded = [[] for _ in range(100_000)]  # type: ignore[var-annotated]
        assert collections == [0] and gc.isenabled()
        assert gc.get_freeze_count() >= frozen + len(loaded)
    finally:
        gc.callbacks.pop()


def test_the_callback_ends_with_its_process() -> None:
    before = list(gc.callbacks)
    with pytest.raises(ZeroDivisionError), short_collections():
        raise ZeroDivisionError
    assert gc.callbacks == before


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_keeps_collections_short(service: str) -> None:
    """Each service runs as `serve` does, where its process ends before it opens anything."""
    program = (
        "import gc, runpy, sys, uvloop\n"
        "def run(coroutine):\n"
        "    coroutine.close()\n"
        "    return '' if any(type(each).__name__ == 'ShortCollections' for each in gc.callbacks) else 'none'\n"
        "uvloop.run = run\n"
        f"runpy.run_module('services.{service}', run_name='__main__')\n"
    )
    settings = {"BRAID_STORE": "sqlite:///nowhere/store.db", "BRAID_INSTANCE": f"{service}-0"}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=settings, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
