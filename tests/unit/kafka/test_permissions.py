"""Which ACL an error names, by what a request needs and the code that a broker refused it with."""

import pytest

from braid.kafka.errors import error_for
from braid.kafka.permissions import Need
from braid.kernel.errors import ClusterAccessDenied

NEED = Need("Read", topic="braid.orders.live.1", group="billing")


@pytest.mark.parametrize(
    ("code", "named", "resource"),
    [
        (29, "Read on the topic braid.orders.live.1", "braid.orders.live.1"),
        (30, "Read on the group billing", "billing"),
        (31, "Read on the cluster", "kafka-cluster"),
    ],
)
def test_a_refused_request_names_the_acl_it_lacks(code: int, named: str, resource: str) -> None:
    error = error_for(code, "what was asked", NEED)
    assert isinstance(error, ClusterAccessDenied) and error.authenticated
    assert f"lacks {named}" in error.message
    assert error.metadata["operation"] == "Read" and error.metadata["resource"] == resource
    assert "kafka-acls.sh" in error.remedy and "braid acls generate" in error.remedy


def test_a_topic_is_not_named_and_no_acl_is_guessed() -> None:
    error = error_for(29, "what was asked", Need("Read", group="billing"))
    assert "no permission on the topic" in error.message and "operation" not in error.metadata


def test_a_producer_without_an_id_hears_both_ways_to_get_one() -> None:
    error = error_for(31, "its producer", Need("IdempotentWrite", instead="Write on any topic"))
    assert "IdempotentWrite on the cluster, or Write on any topic" in error.message
