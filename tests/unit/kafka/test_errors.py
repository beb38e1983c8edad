"""Kafka's codes as Braid's errors."""

import pytest

from braid.kafka.errors import check, error_for
from braid.kernel.errors import (
    AlreadyExists,
    BatchTooLarge,
    BraidError,
    ClusterUnavailable,
    Fenced,
    Invalid,
    NotFound,
    Refused,
)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (3, NotFound),
        (7, ClusterUnavailable),
        (10, BatchTooLarge),
        (12, Invalid),
        (17, Invalid),
        (22, Fenced),
        (25, Fenced),
        (36, AlreadyExists),
        (38, Invalid),
        (40, Invalid),
        (68, Refused),
        (69, NotFound),
        (82, Fenced),
        (999, ClusterUnavailable),
        (-1, ClusterUnavailable),
    ],
)
def test_each_code_has_its_error(code: int, expected: type[BraidError]) -> None:
    error = error_for(code, "topic logs")
    assert type(error) is expected
    assert "topic logs" in str(error)


def test_success_passes_and_the_brokers_words_are_kept() -> None:
    check(0, "topic logs")
    with pytest.raises(Invalid, match="replication factor: 5"):
        check(38, "topic logs", "Unable to replicate, replication factor: 5")
