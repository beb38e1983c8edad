"""Shared brokers and meshes of tests: next to each other, ended when nothing stands on them any more."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import cast

import pytest

from tests.support.grounds import Grounds, fixtures_of, together


class Item:
    """A test, as far as it is looked at."""

    def __init__(self, name: str, *fixturenames: str) -> None:
        self.name = name
        self.fixturenames = fixturenames


def item(name: str, *fixturenames: str) -> pytest.Item:
    return cast("pytest.Item", Item(name, *fixturenames))


def test_tests_of_one_ground_follow_each_other_in_their_order() -> None:
    items = [item("a"), item("b", "mesh"), item("c", "broker"), item("d", "x", "mesh"), item("e"), item("f", "broker")]
    assert [each.name for each in together(items, ("broker", "mesh"))] == ["c", "f", "b", "d", "a", "e"]


def test_what_the_next_test_does_not_need_is_ended() -> None:
    ended: list[str] = []

    @contextmanager
    def ground(name: str) -> Iterator[str]:
        yield name.upper()
        ended.append(name)

    grounds = Grounds()
    assert grounds.enter("broker", ground("broker")) == "BROKER"
    grounds.enter("mesh", ground("mesh"))
    grounds.leave(fixtures_of(item("next", "mesh", "tmp_path")))
    assert ended == ["broker"]
    grounds.leave(fixtures_of(None))
    grounds.leave()
    assert ended == ["broker", "mesh"]


def test_what_does_not_start_is_not_ended() -> None:
    class Broken(AbstractContextManager[None]):
        def __enter__(self) -> None:
            raise OSError("no port")

        def __exit__(self, *told: object) -> None:
            raise AssertionError("it was never entered")

    grounds = Grounds()
    with pytest.raises(OSError, match="no port"):
        grounds.enter("broker", Broken())
    grounds.leave()
