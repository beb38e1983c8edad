"""The benchmarks that `make bench` plays."""

from importlib.util import find_spec

import pytest

from bench.__main__ import BENCHMARKS


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_is_a_module_of_its_name(name: str) -> None:
    assert find_spec(f"bench.{name}") is not None
