"""Quotas of clients in Kafka's answers, and clusters whose brokers do not know them."""

from typing import cast

import pytest

from braid.kafka.protocol.client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestV1,
    change_quotas,
    read_quotas,
    told_quotas,
)
from braid.kafka.protocol.wire import Wire
from braid.kernel.errors import Refused
from braid.kernel.ports import QuotaEntity

SHOP = QuotaEntity("shop")
VALUES: list[tuple[str, float, object]] = [("producer_byte_rate", 5.0, {}), ("controller_mutation_rate", 1.0, {})]


def test_quotas_of_named_users_and_their_client_ids_are_told() -> None:
    rows: list[tuple[list[tuple[str, str | None, object]], list[tuple[str, float, object]], object]] = [
        ([("user", "shop", {})], VALUES, {}),
        ([("client-id", "batch", {}), ("user", "shop", {})], VALUES, {}),
        ([("user", None, {})], VALUES, {}),
        ([("user", "shop", {}), ("client-id", None, {})], VALUES, {}),
        ([("client-id", "batch", {})], VALUES, {}),
        ([("ip", "10.0.0.1", {})], VALUES, {}),
    ]
    told = {"producer_byte_rate": 5.0}
    assert told_quotas(rows) == {SHOP: told, QuotaEntity("shop", "batch"): told}


def test_a_client_id_is_sent_beside_its_user() -> None:
    request = AlterClientQuotasRequest(QuotaEntity("shop", "batch"), {"b": None, "a": 7})
    sent = request.build(AlterClientQuotasRequestV1)
    [(entity, changes, _)] = sent.entries
    assert entity == [("user", "shop", {}), ("client-id", "batch", {})]
    assert changes == [("a", 7, False, {}), ("b", 0.0, True, {})]


class Old:
    """Brokers that do not know the requests."""

    async def ask_any(self, request: object) -> object:
        raise NotImplementedError

    async def ask(self, broker: int, request: object) -> object:
        raise NotImplementedError


async def test_brokers_without_quotas_are_a_refusal_and_no_crash() -> None:
    wire = cast("Wire", Old())
    with pytest.raises(Refused, match="KIP-546"):
        await read_quotas(wire, ["shop"])
    with pytest.raises(Refused, match="KIP-546"):
        await change_quotas(wire, SHOP, {"producer_byte_rate": 1})
