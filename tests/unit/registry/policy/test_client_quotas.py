"""Quotas of Kafka users on a cluster: which are set, removed, forgotten and left alone."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from braid.kernel.access.kafka_users import KafkaUser
from braid.kernel.access.tenants import Quotas, Tenant
from braid.kernel.ports import QuotaEntity
from services.registry.model.clusters.client_quotas import ClientQuota
from services.registry.policy.client_quotas import Wish, compare, wishes_on, without_own

RATE = "producer_byte_rate"
SHOP = ClientQuota("shop", "", RATE, 100)
BATCH = ClientQuota("shop", "batch", "request_percentage", 5)


def entities(*quotas: ClientQuota) -> Mapping[QuotaEntity, Mapping[str, float]]:
    """The answer of a cluster that has these quotas."""
    found: dict[QuotaEntity, dict[str, float]] = {}
    for each in quotas:
        found.setdefault(each.about.entity, {})[each.key] = float(each.value)
    return found


def wish(*quotas: ClientQuota, take_over: bool = False) -> list[Wish]:
    return [Wish("acme", each, take_over) for each in quotas]


def test_a_tenants_users_get_its_quotas_where_they_are_its_own() -> None:
    quotas = Quotas(streams=3, producer_bytes_per_second=100, request_percentage=5)
    users = (KafkaUser("shop"), KafkaUser("web", "a", ("east",), take_over=True))
    tenants = [Tenant("acme", quotas=quotas, kafka_users=users), Tenant("bakery", kafka_users=(KafkaUser("oven"),))]
    assert wishes_on("west", tenants) == [
        Wish("acme", SHOP),
        Wish("acme", ClientQuota("shop", "", "request_percentage", 5)),
    ]
    assert [each[1:] for each in wishes_on("east", tenants)][2:] == [
        (ClientQuota("web", "a", RATE, 100), True),
        (ClientQuota("web", "a", "request_percentage", 5), True),
    ]


def test_what_is_wanted_is_recorded_and_then_set() -> None:
    found = compare(wish(SHOP, BATCH), (), {})
    assert found.intend == [SHOP, BATCH]
    assert found.change == {SHOP.about.entity: {RATE: 100}, BATCH.about.entity: {"request_percentage": 5}}
    assert not found.absent and not found.refused


def test_what_is_as_wanted_is_left_as_it_is() -> None:
    found = compare(wish(SHOP), (SHOP,), entities(SHOP))
    assert not (found.intend or found.change or found.absent or found.refused)


def test_what_was_recorded_and_not_set_is_set_by_the_next_leader() -> None:
    found = compare(wish(SHOP), (SHOP,), {})
    assert not found.intend and found.change == {SHOP.about.entity: {RATE: 100}}


def test_a_value_that_somebody_changed_is_set_back() -> None:
    found = compare(wish(SHOP), (SHOP,), entities(ClientQuota("shop", "", RATE, 7)))
    assert found.change == {SHOP.about.entity: {RATE: 100}} and not found.refused


def test_what_nobody_wants_is_removed_and_then_forgotten() -> None:
    found = compare((), (SHOP,), entities(SHOP))
    assert found.change == {SHOP.about.entity: {RATE: None}} and not found.absent
    found = compare((), (SHOP,), {})
    assert found.absent == [SHOP] and not found.change


@pytest.mark.parametrize("value", [100, 7])
def test_what_somebody_else_set_is_refused_and_not_touched(value: int) -> None:
    found = compare(wish(SHOP, BATCH), (), entities(ClientQuota("shop", "", RATE, value)))
    assert found.intend == [BATCH] and SHOP.about.entity not in found.change
    refusal = found.refused["acme"]
    assert f"user shop has producer_byte_rate {value}, which Braid did not set" in refusal.message
    assert (
        "take_over: true" in refusal.remedy
        and "--entity-name shop --delete-config producer_byte_rate" in refusal.remedy
    )


def test_what_somebody_else_set_is_taken_over_on_demand() -> None:
    found = compare(wish(SHOP, take_over=True), (), entities(ClientQuota("shop", "", RATE, 7)))
    assert found.intend == [SHOP] and found.change == {SHOP.about.entity: {RATE: 100}} and not found.refused


def test_other_values_of_the_same_user_stay() -> None:
    theirs = ClientQuota("shop", "", "consumer_byte_rate", 9)
    found = compare(wish(SHOP), (SHOP,), entities(theirs, SHOP))
    assert not found.change and not found.refused
    assert compare((), (SHOP,), entities(theirs, SHOP)).change == {SHOP.about.entity: {RATE: None}}


def test_the_registrys_own_user_gets_no_quota() -> None:
    own = ClientQuota("braid", "", RATE, 100)
    kept, refused = without_own(wish(SHOP, own), "braid", "east")
    assert [each.quota for each in kept] == [SHOP]
    assert "Braid's registry logs in as on cluster east" in refused["acme"].message
    assert without_own(wish(SHOP), "", "east") == (wish(SHOP), {})


_QUOTAS = st.builds(ClientQuota, st.sampled_from("ab"), st.sampled_from(["", "c"]), st.just(RATE), st.integers(1, 3))
_UNIQUE = st.lists(_QUOTAS, max_size=4, unique_by=lambda each: each.about)


@given(_UNIQUE, _UNIQUE, _UNIQUE, st.booleans())
def test_whatever_was_there_two_looks_bring_what_is_wanted(
    wanted: Sequence[ClientQuota], remembered: Sequence[ClientQuota], present: Sequence[ClientQuota], take_over: bool
) -> None:
    """After two looks nothing is left to do, and no quota of anybody else's was changed."""
    wishes = wish(*wanted, take_over=take_over)
    known, cluster = {each.about: each for each in remembered}, {each.about: each for each in present}
    theirs = {about: each for about, each in cluster.items() if about not in known}
    for _ in range(2):
        found = compare(wishes, list(known.values()), entities(*cluster.values()))
        known |= {each.about: each for each in found.intend}
        for entity, changes in found.change.items():
            for key, value in changes.items():
                quota = ClientQuota(entity.user, entity.client_id, key, int(value or 0))
                assert quota.about in known, "it is remembered before it is changed"
                cluster.pop(quota.about, None)
                cluster |= {quota.about: quota} if value is not None else {}
        known = {about: each for about, each in known.items() if each not in found.absent}
    left = {} if take_over else theirs
    expected = {**theirs, **{each.about: each for each in wanted if each.about not in left}}
    assert cluster == expected
    assert set(known) == {each.about for each in wanted if each.about not in left}
