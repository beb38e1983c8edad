"""Kafka users of tenants: what is refused as one, and whose a user is on which cluster."""

import pytest

from braid.kernel.access.kafka_users import KafkaUser, check_kafka_users, users_on
from braid.kernel.errors import Invalid
from braid.kernel.limits.access.rights import KAFKA_USER_CHARS_MAX, KAFKA_USERS_MAX, TENANT_KAFKA_USERS_MAX
from braid.kernel.limits.names import STREAM_CLUSTERS_MAX

SHOP = KafkaUser("shop", clusters=("east",))
MANY = tuple(KafkaUser(f"u{n}") for n in range(KAFKA_USERS_MAX))
CLUSTERS = tuple(f"c{n}" for n in range(STREAM_CLUSTERS_MAX + 1))


@pytest.mark.parametrize(
    ("users", "where", "remedy"),
    [
        ([KafkaUser("")], "[0].name", "as Kafka's brokers know it"),
        ([KafkaUser(" shop")], "[0].name", "as Kafka's brokers know it"),
        ([KafkaUser("sh\nop")], "[0].name", "as Kafka's brokers know it"),
        ([KafkaUser("x" * (KAFKA_USER_CHARS_MAX + 1))], "[0].name", "as Kafka's brokers know it"),
        ([KafkaUser("*")], "[0].name", "name its users"),
        ([KafkaUser("ANONYMOUS")], "[0].name", "name its users"),
        ([KafkaUser("<default>")], "[0].name", "name its users"),
        ([KafkaUser("User:shop")], "[0].name", "write 'shop'"),
        ([KafkaUser("new", "*")], "[0].client_id", "leave client_id out"),
        ([KafkaUser("new", "a\tb")], "[0].client_id", "as Kafka's brokers know it"),
        ([KafkaUser("new", clusters=("ea/st",))], "[0].clusters[0]", ""),
        ([KafkaUser("new", clusters=CLUSTERS)], "[0].clusters", "leave them out"),
        ([KafkaUser("new"), KafkaUser("new", clusters=("west",))], "[1].name", ""),
        ([KafkaUser("new"), KafkaUser("shop", "batch")], "[1].name", "braid get tenant bakery"),
        ([KafkaUser("shop", clusters=("west", "east"))], "[0].name", "or name other clusters"),
        (MANY[: TENANT_KAFKA_USERS_MAX + 1], "", "share users"),
    ],
)
def test_a_kafka_user_out_of_form_is_refused_by_its_field(users: list[KafkaUser], where: str, remedy: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_kafka_users(users, [("bakery", (SHOP,))])
    assert refused.value.field == f"spec.kafka_users{where}"
    assert remedy in refused.value.remedy


def test_all_tenants_together_have_a_bound_of_users() -> None:
    with pytest.raises(Invalid, match=f"more than {KAFKA_USERS_MAX}"):
        check_kafka_users([KafkaUser("new")], [("bakery", MANY)])
    check_kafka_users([], [("bakery", MANY)])
    check_kafka_users([KafkaUser("new")], [("bakery", MANY[1:])])


def test_one_name_may_be_two_tenants_on_clusters_apart() -> None:
    check_kafka_users([KafkaUser("shop", clusters=("west",))], [("bakery", (SHOP,))])
    check_kafka_users([KafkaUser("new"), KafkaUser("new", "batch"), KafkaUser("CN=a,O=b c")], [("bakery", (SHOP,))])


def test_a_user_without_clusters_is_on_every_one() -> None:
    named = (SHOP, KafkaUser("web"))
    assert [each.name for each in users_on(named, "east")] == ["shop", "web"]
    assert [each.name for each in users_on(named, "west")] == ["web"]
