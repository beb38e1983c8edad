"""Shared brokers and meshes of tests: next to each other, ended when nothing stands on them any more."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import cast

import pytest

from tests.integration import conftest
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


def test_a_test_on_an_ended_ground_fails_and_names_it() -> None:
    grounds = Grounds()
    grounds.enter("broker", nullcontext())
    grounds.enter("mesh", nullcontext())
    grounds.leave(["mesh"])
    grounds.refuse_ended(["mesh", "tmp_path"])
    with pytest.raises(AssertionError, match=r"^broker ended before this test began"):
        grounds.refuse_ended(["broker", "mesh"])


def test_a_real_test_is_looked_at_before_its_fixtures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The conftest of real brokers asks for every test, before pytest hands out what it cached."""
    grounds = Grounds()
    monkeypatch.setattr(conftest, "open_grounds", grounds)
    grounds.enter("broker", nullcontext())
    conftest.pytest_runtest_setup(item("lucky", "broker"))
    conftest.pytest_runtest_teardown(item("unrelated", "tmp_path"))
    conftest.pytest_runtest_setup(item("unrelated", "tmp_path"))
    with pytest.raises(AssertionError, match=r"^broker ended"):
        conftest.pytest_runtest_setup(item("unlucky", "broker"))


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
