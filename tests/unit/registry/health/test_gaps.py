"""Unavailable parts of a cluster: named, dated, and counted in shares."""

from braid.kernel.limits.registry.health import (
    BROKER_FORGOTTEN_SECONDS,
    CHANNEL_GONE_AFTER_SECONDS,
    HALF_DEAD_AFTER_SECONDS,
    PARTITION_GONE_AFTER_SECONDS,
)
from braid.kernel.ports import TopicDescription, TopicPartition
from services.registry.health.gaps import Gaps
from services.registry.model.clusters.thresholds import Thresholds

CANARY = "braid.canary.registry"
USUAL = Thresholds()


def topic(
    name: str, *leaders: int, thin: tuple[int, ...] = (), replicas: tuple[tuple[int, ...], ...] = ()
) -> dict[str, TopicDescription]:
    return {name: TopicDescription(name, b"id", leaders, thin, replicas=replicas)}


def test_a_partition_without_a_leader_is_gone_once_it_lasts() -> None:
    gaps = Gaps(CANARY)
    gaps.see_topics(topic("t", 1, -1, 3, thin=(1, 2)), 10.0)
    assert not gaps.gone(10.0) and not gaps.reason(10.0) and gaps.under_replicated == 2
    assert gaps.gone(10.0, 0.0) == [TopicPartition("t", 1)]
    late = 10.0 + HALF_DEAD_AFTER_SECONDS
    gaps.see_topics(topic("t", 1, -1, 3), late)
    assert gaps.gone(late) == [TopicPartition("t", 1)]
    assert gaps.reason(late) == "1 of 3 partitions are gone: t/1"
    gaps.see_topics(topic("t", 1, 2, 3), late)
    assert not gaps.reason(late + 100)


def test_topics_that_lack_copies_are_named_without_the_canary() -> None:
    gaps = Gaps(CANARY)
    for name, thin in ((CANARY, (0,)), ("b", (0,)), ("a", (0,)), ("c", ())):
        gaps.see_topics(topic(name, 1, thin=thin), 0.0)
    assert list(gaps.under_replicated_topics) == ["a", "b"]
    gaps.see_topics(topic("a", 1), 1.0)
    assert list(gaps.under_replicated_topics) == ["b"]


def test_an_election_begins_anew() -> None:
    gaps = Gaps(CANARY)
    for at, leader in ((0.0, -1), (2.0, 1), (2.5, -1)):
        gaps.see_topics(topic("t", leader), at)
    assert not gaps.gone(0.0 + HALF_DEAD_AFTER_SECONDS) and gaps.gone(2.5 + HALF_DEAD_AFTER_SECONDS)


def test_a_partition_that_hangs_is_gone_until_it_answers() -> None:
    gaps, hung = Gaps(CANARY), TopicPartition(CANARY, 1)
    gaps.see_topics(topic(CANARY, 1, 2, 3), 0.0)
    gaps.hangs(hung, 1.0)
    gaps.hangs(hung, 3.0)
    assert gaps.gone(1.0 + HALF_DEAD_AFTER_SECONDS) == [hung]
    gaps.answers(hung)
    assert not gaps.gone(99.0)


def test_the_share_is_of_all_or_of_the_canary_whichever_is_more() -> None:
    gaps = Gaps(CANARY)
    gaps.see_topics(topic(CANARY, 1, -1, -1), 0.0)
    gaps.see_topics(topic("t", *[1] * 97), 0.0)
    assert gaps.share(1.0) == 0.0
    assert gaps.share(10.0) == 2 / 3
    gaps.see_topics(topic(CANARY, 1, 2, 3), 10.0)
    gaps.see_topics(topic("t", *[1] * 47, *[-1] * 50), 10.0)
    assert gaps.share(20.0) == 50 / 97


def test_vanished_brokers_are_named_a_while_and_condemn_nothing() -> None:
    gaps = Gaps(CANARY)
    gaps.see_brokers([1, 2, 3], 0.0)
    gaps.see_brokers([1, 3], 1.0)
    assert (gaps.brokers, gaps.missing_brokers, gaps.reason(99.0)) == (2, (2,), "")
    gaps.see_brokers([1, 3], 1.0 + BROKER_FORGOTTEN_SECONDS)
    assert gaps.missing_brokers == ()


def test_an_absent_broker_is_usual_while_it_keeps_a_copy() -> None:
    gaps = Gaps(CANARY, usual_brokers=(1, 2, 3))
    assert not (gaps.usual_brokers or gaps.missing_brokers)  # nothing is known before the first look
    gaps.see_brokers([1, 2], 10.0)
    gaps.see_topics(topic(CANARY, 1, replicas=((1, 2, 3),)), 10.0)
    assert [*gaps.usual_brokers, *gaps.missing_brokers, gaps.brokers] == [1, 2, 3, 3, 2]
    late = 10.0 + 2 * BROKER_FORGOTTEN_SECONDS
    gaps.see_brokers([1, 2], late)
    assert list(gaps.usual_brokers) == [1, 2, 3]
    gaps.see_topics(topic(CANARY, 1, replicas=((1, 2),)), late)
    gaps.see_brokers([1, 2, 4], late)
    assert [gaps.usual_brokers, gaps.missing_brokers] == [(1, 2, 4), ()]


def test_a_broker_gone_for_good_is_forgotten_only_after_a_while() -> None:
    gaps = Gaps(CANARY, usual_brokers=(1, 2))
    gaps.see_brokers([1], 10.0)
    gaps.see_brokers([1], 9.0 + BROKER_FORGOTTEN_SECONDS)
    assert list(gaps.usual_brokers) == [1, 2]
    gaps.see_brokers([1], 11.0 + BROKER_FORGOTTEN_SECONDS)
    assert list(gaps.usual_brokers) == [1]


def test_a_channel_is_gone_with_more_than_its_share_long_enough() -> None:
    gaps = Gaps(CANARY)
    gaps.see_topics({**topic("few", 1, 2, 3, 4, -1), **topic("many", 1, -1, 3, 4)}, 0.0)
    gaps.see_topics(topic(CANARY, -1, 2), 0.0)
    assert gaps.channels_gone(CHANNEL_GONE_AFTER_SECONDS - 0.1, USUAL) == {}
    assert list(gaps.channels_gone(CHANNEL_GONE_AFTER_SECONDS, USUAL)) == ["many"]
    assert "1 of its 4 partitions" in gaps.channels_gone(CHANNEL_GONE_AFTER_SECONDS, USUAL)["many"]


def test_a_channel_is_gone_with_any_partition_for_longer() -> None:
    gaps = Gaps(CANARY)
    gaps.see_topics({**topic("one", 1, 2, 3, 4, 5, 6, 7, -1), **topic("all", 1), **topic(CANARY, -1, 2)}, 0.0)
    assert gaps.channels_gone(PARTITION_GONE_AFTER_SECONDS - 0.1, USUAL) == {}
    told = "1 of its 8 partitions has had no leader for 15 s"
    assert gaps.channels_gone(PARTITION_GONE_AFTER_SECONDS, USUAL) == {"one": told}
    gaps.see_topics(topic("one", *[1] * 7, 2), PARTITION_GONE_AFTER_SECONDS)
    assert gaps.channels_gone(99.0, USUAL) == {}


def test_a_channels_allowed_loss_and_time_may_be_declared() -> None:
    gaps = Gaps(CANARY)
    gaps.see_topics(topic("t", 1, 2, -1, -1), 0.0)
    gaps.miss_topics(["gone"], 0.0)
    declared = Thresholds(channel_gone_share=0.5, channel_gone_after_seconds=2.0, partition_gone_after_seconds=60.0)
    assert list(gaps.channels_gone(59.9, declared)) == ["gone"]
    assert list(gaps.channels_gone(60.0, declared)) == ["gone", "t"]
    assert list(gaps.channels_gone(2.0, Thresholds(channel_gone_share=0.4, channel_gone_after_seconds=2.0))) == [
        "gone",
        "t",
    ]
    assert gaps.gone(0.9, 1.0) == [] and gaps.share(1.0, 1.0) == 0.5 and gaps.reason(1.0, 1.0)


def test_a_cluster_makes_no_topics_once_long_asked_in_vain() -> None:
    gaps = Gaps(CANARY)
    assert gaps.no_topics(10.0) == gaps.refusal == ""
    gaps.see_controller("no answer", 0.0, 5.0)
    assert (gaps.no_topics(10.0), gaps.refusal) == ("", "no answer")
    gaps.see_controller("not authorized", 10.0, 10.0)
    assert gaps.no_topics(10.0) == "it makes no topics: not authorized" and not gaps.no_topics(10.1)
    gaps.see_controller("", 15.0, 15.0)
    assert gaps.no_topics(0.0) == gaps.refusal == ""
    gaps.see_controller("no answer", 20.0, 25.0)
    assert not gaps.no_topics(5.1) and gaps.no_topics(5.0)


def test_topics_nobody_uses_any_more_are_forgotten() -> None:
    gaps = Gaps(CANARY)
    gaps.see_topics({**topic("old", -1), **topic("new", -1), **topic(CANARY, 1)}, 0.0)
    gaps.keep_topics(["new"])
    assert gaps.gone(10.0) == [TopicPartition("new", 0)] and gaps.partitions == 2


def test_a_channel_without_its_topic_is_gone_but_not_its_cluster() -> None:
    gaps = Gaps(CANARY)
    gaps.see_topics(topic("t", 1, 2), 0.0)
    gaps.miss_topics(["t", "never"], 1.0)
    gaps.miss_topics(["t", "never"], 4.0)
    assert gaps.channels_gone(1.0 + CHANNEL_GONE_AFTER_SECONDS - 0.1, USUAL) == {}
    assert gaps.channels_gone(1.0 + CHANNEL_GONE_AFTER_SECONDS, USUAL) == dict.fromkeys(
        ("t", "never"), "its topic is gone"
    )
    assert gaps.share(99.0) == 0.0 and not gaps.reason(99.0)
    gaps.see_topics(topic("t", 1, 2), 9.0)
    gaps.keep_topics(["t"])
    assert gaps.channels_gone(99.0, USUAL) == {}
