"""Negative controls: a twin with a fault of its own must turn a body red that was green before."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from braid.kafka.memory import link, log, producer
from braid.kafka.memory.cluster import MemoryCluster
from braid.kafka.memory.fetcher import MemoryFetcher
from braid.kafka.memory.groups import Groups
from braid.kafka.memory.topic_config import TOPIC_DEFAULTS
from braid.kernel.errors import ClusterUnavailable, Fenced
from braid.kernel.ports import Committed, Contact, FetchedColumns, Generation, TopicPartition
from tests.contract.kafka import admin_bodies, fault_bodies, flow_bodies, membership_bodies, offsets_bodies
from tests.contract.kafka.memory_rig import run_on_memory

# What `pytest.raises` raises when the expected error did not come.
MISSED = pytest.fail.Exception


def test_a_seal_that_does_not_seal(monkeypatch: pytest.MonkeyPatch) -> None:
    body = flow_bodies.a_sealed_topic_refuses_a_producer_that_goes_on_elsewhere
    run_on_memory(body)
    real = MemoryCluster.topic_config
    monkeypatch.setattr(
        MemoryCluster, "topic_config", lambda self, topic: {**real(self, topic), "max.message.bytes": "1000000"}
    )
    with pytest.raises((AssertionError, MISSED)):
        run_on_memory(body)


def test_commits_that_are_not_fenced(monkeypatch: pytest.MonkeyPatch) -> None:
    body = offsets_bodies.generations_fence_commits
    run_on_memory(body)
    real = Groups.commit

    def commit(
        self: Groups, name: str, offsets: Mapping[TopicPartition, Committed], generation: Generation | None
    ) -> None:
        group = self._groups.get(name)
        held = None if group is None or group.member_id is None else Generation(group.generation, group.member_id)
        real(self, name, offsets, held)

    monkeypatch.setattr(Groups, "commit", commit)
    with pytest.raises((AssertionError, MISSED)):
        run_on_memory(body)


def test_positions_that_are_reset_by_an_assignment(monkeypatch: pytest.MonkeyPatch) -> None:
    body = flow_bodies.positions_are_kept_across_assignments
    run_on_memory(body)

    def assign(self: MemoryFetcher, positions: Mapping[TopicPartition, int], lanes: object = None) -> None:
        self._positions = dict(positions)
        self._link.cluster.notify()

    monkeypatch.setattr(MemoryFetcher, "assign", assign)
    with pytest.raises(AssertionError):
        run_on_memory(body)


def test_a_producer_that_gives_up_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    body = fault_bodies.a_killed_cluster_fails_calls_and_comes_back
    run_on_memory(body)

    async def append(
        self: producer.MemoryProducer, partition: TopicPartition, records: Sequence[log.NewRecord], sequence: int
    ) -> tuple[int, bool]:
        return await self._link.call(lambda: self._link.cluster.append(partition, records, 1, sequence)), False

    monkeypatch.setattr(producer.MemoryProducer, "_append", append)
    with pytest.raises((AssertionError, ClusterUnavailable)):
        run_on_memory(body)


def test_a_producer_that_writes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    body = fault_bodies.a_frozen_cluster_times_calls_out_and_goes_on
    run_on_memory(body)
    real = log.Log.append

    def append(self: log.Log, new: Sequence[log.NewRecord], leader_epoch: int, producer_id: int, sequence: int) -> int:
        return real(self, new, leader_epoch, -1, -1)

    monkeypatch.setattr(log.Log, "append", append)
    with pytest.raises(AssertionError):
        run_on_memory(body)


def test_calls_without_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    body = fault_bodies.a_frozen_cluster_times_calls_out_and_goes_on
    run_on_memory(body)
    real = link.Link.call
    monkeypatch.setattr(link.Link, "call", lambda self, asked, _=0.0, **kept: real(self, asked, 60.0, **kept))
    with pytest.raises((AssertionError, TimeoutError)):
        run_on_memory(body)


def test_a_disk_that_does_not_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    body = admin_bodies.a_broker_tells_the_room_on_its_disk_and_what_lies_there
    run_on_memory(body)
    real = MemoryCluster.log_dirs
    monkeypatch.setattr(
        MemoryCluster,
        "log_dirs",
        lambda self, broker: [replace(each, sizes=dict.fromkeys(each.sizes, 0)) for each in real(self, broker)],
    )
    with pytest.raises(AssertionError):
        run_on_memory(body)


def test_settings_of_topics_without_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    body = admin_bodies.settings_of_many_topics_are_read_at_once
    run_on_memory(body)
    monkeypatch.setattr(MemoryCluster, "topic_config", lambda self, topic: dict(TOPIC_DEFAULTS))
    with pytest.raises(AssertionError):
        run_on_memory(body)


def test_a_fingerprint_of_the_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    body = admin_bodies.fingerprints_tell_logs_apart
    run_on_memory(body)
    real = MemoryCluster.fingerprint
    monkeypatch.setattr(
        MemoryCluster,
        "fingerprint",
        lambda self, partition, offset: (
            found._replace(topic_id=b"", batch_crc=0) if (found := real(self, partition, offset)) else None
        ),
    )
    with pytest.raises(AssertionError):
        run_on_memory(body)


def test_damage_that_is_passed_in_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    body = flow_bodies.a_bomb_is_told_and_passed_between_its_neighbours
    run_on_memory(body)
    real = log.Log.read
    monkeypatch.setattr(log.Log, "read", lambda self, *where: real(self, *where)._replace(damaged=[]))
    with pytest.raises(ValueError, match="not enough values"):
        run_on_memory(body)


def test_columns_of_other_records(monkeypatch: pytest.MonkeyPatch) -> None:
    body = flow_bodies.columns_say_what_records_say
    run_on_memory(body)
    real = MemoryFetcher.fetch_columns

    async def fetch_columns(
        self: MemoryFetcher, max_records: int, timeout_seconds: float, names: Sequence[str]
    ) -> Sequence[FetchedColumns]:
        return [
            one._replace(parts=[replace(part, keys=part.values) for part in one.parts])
            for one in await real(self, max_records, timeout_seconds, names)
        ]

    monkeypatch.setattr(MemoryFetcher, "fetch_columns", fetch_columns)
    with pytest.raises(AssertionError):
        run_on_memory(body)


def test_a_bump_that_bumps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    body = membership_bodies.a_bump_refuses_every_earlier_generation
    run_on_memory(body)
    monkeypatch.setattr(Groups, "join", lambda self, name, member: self._groups[name].__setattr__("member_id", member)
                        or Generation(1, member))  # fmt: skip
    with pytest.raises((AssertionError, Fenced)):
        run_on_memory(body)


def test_a_membership_that_lets_strays_in(monkeypatch: pytest.MonkeyPatch) -> None:
    body = membership_bodies.strays_and_we_keep_each_other_out
    run_on_memory(body)
    monkeypatch.setattr(Groups, "occupy", lambda self, name: True)
    with pytest.raises((AssertionError, MISSED)):
        run_on_memory(body)


def test_a_fetcher_that_owes_nothing_while_its_cluster_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    body = fault_bodies.a_fetcher_tells_what_it_is_owed
    run_on_memory(body)
    monkeypatch.setattr(MemoryFetcher, "contact", lambda self: Contact(0.0, 0.0))
    with pytest.raises(TimeoutError):
        run_on_memory(body)
