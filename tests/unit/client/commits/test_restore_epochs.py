"""The leader epoch of a commit, and which claims hold beyond it, by the vectors of the reference page."""

import json
from pathlib import Path
from typing import Any

import pytest

from braid.client.commits.restore import restore
from braid.kafka.memory import MemoryCluster, MemoryKafka
from braid.kafka.memory.log import NewRecord
from braid.kernel.envelope import encode
from braid.kernel.envelope.epochs import newest_epoch
from braid.kernel.ports import Committed, Fingerprint, TopicPartition
from braid.kernel.progress.fields import EnvelopeFields
from braid.kernel.progress.ranges import Ranges
from tests.support.virtual_time import run_virtual, running_loop, virtual_host

ROOT = Path(__file__).parents[4]
VECTORS: list[dict[str, Any]] = json.loads((ROOT / "tests/golden/envelope/epochs.json").read_text(encoding="ascii"))
PLACE = TopicPartition("t", 0)
BASE, DONE, END = 2_000, 2_300, 2_400
PRESENT = 8


def filled(cluster: MemoryCluster, vector: dict[str, Any]) -> None:
    """A log that leader 5 wrote up to the base, the known one from there on, and a later one from a cut on."""
    cluster.create_topic(PLACE.topic, 1, 1, {})
    for _ in range(PRESENT):
        cluster.kill()
        cluster.start()
    log, later = cluster.log(PLACE), vector["later"]
    for stop, epoch in ((min(BASE, later), 5), (later, max(vector["known"], 5)), (END, PRESENT)):
        if stop > log.end:
            log.append([NewRecord(0, None, b"", ())] * (stop - log.end), epoch, -1, -1)


def commit(cluster: MemoryCluster, vector: dict[str, Any]) -> Committed:
    """The commit of a vector; its checksum is that of the batch below the base."""
    if vector["name"] == "without-room":
        return Committed(BASE, "", vector["leader_epoch"])
    fields = EnvelopeFields(BASE, Ranges([(BASE + 1, DONE)]), fingerprint=_stated(cluster, vector["fingerprint"]))
    encoded = encode(fields)
    return Committed(encoded.offset, encoded.metadata, vector["leader_epoch"])


def _stated(cluster: MemoryCluster, stated: tuple[int, int] | None) -> Fingerprint | None:
    if stated is None:
        return None
    below = cluster.fingerprint(PLACE, BASE)
    assert below is not None
    return below if stated[1] else Fingerprint(below.topic_id, *stated)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_claims_end_where_later_leaders_than_the_known_one_wrote(vector: dict[str, Any]) -> None:
    async def run() -> None:
        kafka = MemoryKafka(virtual_host(running_loop(), seed=1).clock)
        east = kafka.add_cluster("east")
        filled(east, vector)
        committed = commit(east, vector)
        assert newest_epoch(committed) == vector["known"]
        east.groups.commit("g", {PLACE: committed}, None)
        cluster = kafka.cluster(east.bootstrap, "")
        restored = await restore("g", PLACE, cluster.offsets(), cluster.admin())
        assert (restored.progress.base, restored.end) == (vector["base"], vector["end"])
        told = {finding.kind for finding in restored.findings}
        assert bool(told) == (vector["known"] >= 0)

    run_virtual(run())


def test_the_reference_page_has_every_vector() -> None:
    page = (ROOT / "docs/reference/commit-envelope.md").read_text(encoding="utf-8")
    for vector in VECTORS:
        epoch = "−1" if vector["leader_epoch"] < 0 else vector["leader_epoch"]
        stated = "none" if vector["fingerprint"] is None else "{}, {}".format(*vector["fingerprint"])
        known = "unknown" if vector["known"] < 0 else vector["known"]
        assert f"| {vector['name']} | {epoch} | {stated} | {known} | {vector['later']} |" in page
