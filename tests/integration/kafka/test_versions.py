"""Every release of Kafka that Braid supports passes the contract, and loses nothing by a ledger.

The oldest plays a slice of the contract in `make test`; `make test-all` plays all of them whole, and the ledgers. The
contract over our own release, which is next to the newest, is `test_kafka_contract.py`.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from devmesh.mesh import DevMesh
from devmesh.processes.brokers import KafkaBroker
from devmesh.toolchain.jars import KAFKA_VERSION, PLAYED_VERSIONS
from testbed.brokers import running_broker
from testbed.mesh import running_mesh
from tests.contract.kafka import admin_bodies, epoch_bodies, membership_bodies, offsets_bodies, quota_bodies
from tests.contract.kafka.rig import Body, Rig, body_name, write
from tests.integration.kafka.release_ledger import keep_ledger
from tests.integration.kafka.test_kafka_contract import BODIES

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(600)]
OLDEST: Final = PLAYED_VERSIONS[0]
SLICE: Final = {*admin_bodies.BODIES, *offsets_bodies.BODIES, *membership_bodies.BODIES, *quota_bodies.BODIES}
BRAID: Final = (sys.executable, "-c", "from braid.cli import main; main()")
CALL_SECONDS: Final = 60.0  # by the wall
FEW: Final = 2_000  # records of a ledger
MANY: Final = 60_000
# A cluster of one broker that is killed and started again leads on under the leader epoch of before, so nothing in its
# log tells that its end was lost. Releases from 4.0 on begin another epoch, and so does every cluster of several.
LEADS_ON: Final = ("3.7.2", "3.9.2")
CUT: Final = epoch_bodies.a_log_that_was_cut_and_filled_up_again_is_told_without_further_records


CONTRACT: Final = [
    pytest.param(
        version,
        body,
        marks=[] if version == OLDEST and body in SLICE else [pytest.mark.extended],
        id=f"{version}-{body_name(body)}",
    )
    for version in PLAYED_VERSIONS
    if version != KAFKA_VERSION
    for body in BODIES
    if not (version in LEADS_ON and body is CUT)
]
LEDGERS: Final = [
    pytest.param(OLDEST, PLAYED_VERSIONS[-1], FEW, marks=pytest.mark.extended, id="few"),
    *(pytest.param(each, each, MANY, marks=pytest.mark.extended, id=each) for each in PLAYED_VERSIONS),
]


class OneBroker:
    """A broker of one release at a time: the next release ends it, so that one serves all bodies of its release."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[str, KafkaBroker] = {}
        self._stack = ExitStack()

    def of(self, version: str) -> KafkaBroker:
        """The broker of a release."""
        if version not in self._running:
            self.close()
            made = running_broker("east", self._directory / version, version=version)
            self._running[version] = self._stack.enter_context(made)
        return self._running[version]

    def close(self) -> None:
        """Ends it."""
        self._running.clear()
        self._stack.close()


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneBroker]:
    """None runs until a test names a release."""
    one = OneBroker(tmp_path_factory.mktemp("broker"))
    yield one
    one.close()


@pytest.fixture
def broker(one_broker: OneBroker, request: pytest.FixtureRequest) -> KafkaBroker:
    """A running broker of the release that the test names."""
    return one_broker.of(request.param)


@pytest.mark.parametrize(("broker", "body"), CONTRACT, indirect=["broker"])
async def test_contract(body: Body, rig: Rig) -> None:
    await body(rig)


@pytest.mark.extended
@pytest.mark.parametrize("broker", LEADS_ON, indirect=True)
async def test_limit_a_single_broker_before_4_0_keeps_its_epoch_if_cut(rig: Rig) -> None:
    partition = await rig.partition()
    producer = await rig.producer()
    for _ in range(4):
        await write(producer, partition, b"old")
    before = await rig.admin.fingerprint(partition, 4)
    await rig.faults.cut(partition, 2)
    await write(await rig.producer(), partition, b"new", b"new")
    after = await rig.admin.fingerprint(partition, 4)
    assert before and after and before.batch_crc != after.batch_crc
    assert (before.leader_epoch, after.leader_epoch) == (0, 0)
    assert await rig.admin.epoch_ends({partition: 0}) == {partition: 4}


def doctor_finds(mesh: DevMesh) -> dict[str, str]:
    """Returns the findings of `braid doctor` about clusters, by check."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
    command = [*BRAID, "doctor", "-o", "json", "--endpoint", mesh.ready.endpoint]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=CALL_SECONDS, check=False)
    findings = json.loads(done.stdout)["findings"]
    return {each["check"]: each["message"] for each in findings if each["name"].startswith("cluster")}


def release_of(version: str) -> str:
    """The release's usual name."""
    return f"Kafka {version.rpartition('.')[0]}"


@pytest.mark.parametrize(("version", "other", "count"), LEDGERS)
def test_nothing_is_lost_or_repeated_by_gaps_fences_and_moves(
    version: str, other: str, count: int, tmp_path: Path
) -> None:
    with (
        running_broker("north", tmp_path / "north", version=other) as north,
        running_mesh(tmp_path / "mesh", clusters=("west",), registries=1, assigners=1, kafka_version=version) as mesh,
    ):
        keep_ledger(mesh, north, count)
        found = doctor_finds(mesh)
    assert found.keys().isdisjoint(("release", "features", "requests")), found
    named = {each for each in (version, other) if release_of(each) in found.get("versions", "")}
    assert named == ({version, other} if version != other else set())
