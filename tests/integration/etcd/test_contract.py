"""The event store's contract, over real etcd. Each body has an etcd of its own."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from testbed.etcd_process import etcd_cluster
from tests.contract.event_store.bodies import BODIES
from tests.contract.event_store.harness import Body, body_name
from tests.integration.etcd.harness import EtcdHarness

pytestmark = pytest.mark.untimed


@pytest.mark.parametrize("body", BODIES, ids=body_name)
async def test_etcd_keeps_the_contract(body: Body, tmp_path: Path) -> None:
    async with etcd_cluster(tmp_path) as cluster, AsyncExitStack() as stack:
        await body(EtcdHarness(cluster, stack))
