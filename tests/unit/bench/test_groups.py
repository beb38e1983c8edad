"""Contests of one process never share a group."""

from bench.groups import new_group


def test_every_group_is_new() -> None:
    assert len({new_group() for _ in range(100)}) == 100
