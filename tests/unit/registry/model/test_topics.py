"""The configuration of channels' topics."""

from braid.kernel.ids import ChannelId
from services.registry.model.topics import HOUR_MS, canary_topic, drained_retention, reconfigurable, topic_config


def test_retention_has_the_strand_allowance_on_top_until_drained() -> None:
    config = topic_config(24, 1 << 20, 1, {})
    assert config["retention.ms"] == str((24 + 14 * 24) * HOUR_MS)
    assert drained_retention(24) == {"retention.ms": str(24 * HOUR_MS)}


def test_segments_are_cut_by_a_share_of_retention_within_bounds() -> None:
    assert topic_config(1, 1 << 20, 1, {})["segment.ms"] == str(HOUR_MS // 6)
    assert topic_config(24, 1 << 20, 1, {})["segment.ms"] == str(3 * HOUR_MS)
    assert topic_config(24 * 365, 1 << 20, 1, {})["segment.ms"] == str(7 * 24 * HOUR_MS)


def test_a_record_of_the_greatest_size_fits_beside_its_overhead() -> None:
    assert int(topic_config(24, 1 << 20, 1, {})["max.message.bytes"]) > 1 << 20
    assert int(topic_config(24, 64 << 20, 1, {})["segment.bytes"]) >= 2 * (64 << 20)


def test_three_copies_need_two_acknowledgements() -> None:
    assert topic_config(24, 1 << 20, 3, {})["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in topic_config(24, 1 << 20, 2, {})  # as the cluster is set
    assert topic_config(24, 1 << 20, 1, {})["min.insync.replicas"] == "1"


def test_further_settings_are_passed_on_but_never_over_the_seal() -> None:
    config = topic_config(24, 1 << 20, 1, {"compression.type": "zstd"})
    assert config["compression.type"] == "zstd"
    assert "max.message.bytes" not in reconfigurable(config)


def test_the_canary_can_be_no_channel() -> None:
    channel = ChannelId("canary", "registry", 1).topic("braid.")
    assert canary_topic("braid.").count(".") < channel.count(".")
