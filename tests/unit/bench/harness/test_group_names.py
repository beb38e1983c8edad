"""Contests of one process never share a group."""

from bench.harness.group_names import new_group


def test_every_group_is_new() -> None:
    assert len({new_group() for _ in range(100)}) == 100
