"""Described things as text: no raw values, and warnings of declarations that cost records."""

from pathlib import Path

import pytest

from braid.api.registry.v1.stream_pb2 import Channel, ChannelReassignment, StreamSpec
from braid.cli.core.documents import Value
from braid.cli.manifests.stream_warnings import stream_warnings
from braid.cli.resources.describe import field_lines
from braid.cli.resources.listing import waits_for
from tests.unit.cli.manifests.test_verbs import STREAM
from tests.unit.cli.mesh import Shell, virtual


def test_lost_ranges_are_told_in_words() -> None:
    lost: list[Value] = [{"partition": 0, "first": 1200, "last": 1999}, {"partition": 3, "first": 7, "last": -1}]
    [line] = field_lines({"lost": lost})
    assert line.split(maxsplit=1)[1] == "partition 0: 1200 to 1999, partition 3: 7 to an unknown end"
    assert field_lines({"blocked": [{"stream": "logs", "why": ""}]})[0].endswith("stream logs why -")


@pytest.mark.parametrize(("value", "warned"), [("true", 1), ("TRUE", 1), ("false", 0), ("", 0)])
def test_a_setting_that_loses_acknowledged_records_warns_by_name(value: str, warned: int) -> None:
    spec = StreamSpec(topic_config={"unclean.leader.election.enable": value} if value else {})
    found = stream_warnings("logs", spec)
    assert len(found) == warned
    assert all("spec.topic_config.unclean.leader.election.enable=true" in each and "lost" in each for each in found)


def test_create_apply_and_diff_warn_and_describe_says_default(tmp_path: Path) -> None:
    unclean, path = "unclean.leader.election.enable", tmp_path / "mesh.yaml"

    @virtual
    async def scenario() -> None:
        shell = await Shell().start("east")
        made = await shell.braid("create", "stream", "risky", "--lane", "live=1", "--config", f"{unclean}=true")
        assert made.code == 0 and f"spec.topic_config.{unclean}=true" in made.err
        assert "replication factor:       default" in (await shell.braid("describe", "stream", "risky")).out
        path.write_text(STREAM.replace('segment.bytes: "1048576"', f'{unclean}: "true"'))
        for verb in ("diff", "apply"):
            assert "stream logs: spec.topic_config" in (await shell.braid(verb, "-f", str(path))).err
        path.write_text(STREAM)
        assert (await shell.braid("apply", "-f", str(path))).err == ""

    scenario()


def test_times_epochs_and_numbers_are_described_in_words() -> None:
    @virtual
    async def scenario() -> None:
        shell = await Shell().start("east")
        assert (await shell.braid("create", "stream", "logs", "--lane", "live=1")).code == 0
        assert (await shell.braid("consume", "logs", "--group", "g", "--timeout", "2")).code == 0
        group = (await shell.braid("describe", "group", "g")).out.partition("Rules:")[0]
        assert "lease time:               3s\n" in group
        assert "drains wait for it:       7d\n" in group
        assert "etag" not in group and "_ms" not in group and "604" not in group
        assert "epoch:                    1.1\n" in (await shell.braid("describe", "lease", "logs/live/1/0")).out
        assert "capacity:                 any\n" in (await shell.braid("describe", "cluster", "east")).out

    scenario()


def test_a_channel_tells_how_far_its_copies_are() -> None:
    channel = Channel(replication_factor=1)
    assert waits_for(channel) == ""
    channel.reassignment.MergeFrom(
        ChannelReassignment(replication_factor=3, throttle_bytes_per_s=32 << 20, partitions_left=12)
    )
    assert waits_for(channel) == "copies 1 to 3: 12 partitions left, at most 32.0 MiB/s"
    channel.reassignment.MergeFrom(ChannelReassignment(waits_for="2 brokers that serve for 3 copies"))
    assert waits_for(channel).endswith("; 2 brokers that serve for 3 copies")
    waiting = Channel(reassignment=ChannelReassignment(waits_for="broker 1 does not answer"))
    assert waits_for(waiting) == "copies: broker 1 does not answer"


def test_no_copies_are_refused_by_their_flag() -> None:
    @virtual
    async def scenario() -> None:
        shell = await Shell().start("east")
        none = await shell.braid("create", "stream", "none", "--lane", "live=1", "--replication-factor", "0")
        assert none.code == 2 and "--replication-factor" in none.err and "leave it out" in none.err
        many = await shell.braid("create", "stream", "many", "--lane", "live=1", "--replication-factor", "1000")
        assert many.code == 2 and "spec.replication_factor" in many.err and "declare 1 to 7" in many.err

    scenario()
