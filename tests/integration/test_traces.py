"""One trace over processes: `braid move`, the registry, and two producers of other processes that acknowledge."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from testbed.mesh import running_mesh
from tests.support.otlp_collector import running_collector
from tests.support.traced_move import SETTINGS, judge, move

pytestmark = [pytest.mark.real, pytest.mark.untimed, pytest.mark.timeout(300)]


def test_a_move_is_one_trace_to_the_last_producer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ExitStack() as stack:
        collector = stack.enter_context(running_collector())
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        for name, value in SETTINGS.items():
            monkeypatch.setenv(name, value)
        mesh = stack.enter_context(running_mesh(tmp_path, registries=1, assigners=1))
        root = move(stack, mesh.ready.endpoint, collector)
    print(collector.tree(root.trace_id))
    judge(collector, root)
