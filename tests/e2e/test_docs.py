"""The tutorial and the guides are true: every snippet runs, in order, in one mesh, and prints what its page says."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import braid
from braid.api.registry.v1.cluster_pb2 import ClusterHealth
from braid.api.registry.v1.registry_service_pb2 import ListClustersRequest, ListClustersResponse
from devmesh.documents import ready_from_json
from testbed.patience import until
from tests.support.board_mesh import failures
from tests.support.preloaded import preloaded
from tests.support.snippets import reader, run_page, run_snippet, snippets

pytestmark = pytest.mark.untimed

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
GUIDES: Final = sorted((DOCS / "guides").glob("*.md"))
LONG: Final = {"running-a-spark-job"}  # it starts Spark twice, which takes three minutes beside other tests
SNIPPET_SECONDS: Final = 600.0  # by the wall: it ends what hangs, and judges nothing
HEALTHY_SECONDS: Final = 150.0  # a cluster that was killed is trusted again after ten seconds of success, or is held
_CREATED: Final = re.compile(r"^(?:braid create stream |kind: Stream\nmetadata: \{name: )([\w.-]+)", re.MULTILINE)
_GROUPED: Final = re.compile(r"""(?:--group |\bgroup=")([\w-]+)""")
_LINK: Final = re.compile(r"\]\(([^)#:]+)\)")


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the reader stands, in the mesh the tutorial begins and ends with."""
    first, *_, last = snippets(DOCS / "tutorial.md")
    directory = tmp_path_factory.mktemp("docs")
    with reader(directory):
        run_snippet(first, directory, SNIPPET_SECONDS)
        wait_healthy(directory)
        yield directory
        run_snippet(last, directory, SNIPPET_SECONDS)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """`braid`, loaded once for all guides."""
    with preloaded(tmp_path_factory.mktemp("commands")) as found:
        yield found


@pytest.mark.real
@pytest.mark.timeout(1_800)
def test_the_tutorial(where: Path) -> None:
    run_page(snippets(DOCS / "tutorial.md")[1:-1], where, SNIPPET_SECONDS)


def test_the_tutorial_shows_output_behind_each_block() -> None:
    assert [each.place for each in snippets(DOCS / "tutorial.md")[1:-1] if not each.printed] == []


def test_output_on_pages_hides_nothing() -> None:
    pages = (DOCS / "tutorial.md", *GUIDES)
    assert [each.place for page in pages for each in snippets(page) if "…" in each.printed] == []


@pytest.mark.real
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=[pytest.mark.extended] * (page.stem in LONG)) for page in GUIDES],
)
def test_a_guide(page: Path, where: Path, commands: Path) -> None:
    wait_healthy(where)
    run_page(snippets(page), where, SNIPPET_SECONDS, commands)


@pytest.mark.real
@pytest.mark.timeout(300)
def test_boards_ask_only_for_what_a_mesh_serves(where: Path, tmp_path: Path) -> None:
    ready = ready_from_json((where / ".braid" / "ready.json").read_text())
    assert failures(tmp_path, [each.metrics for each in ready.services.values()]) == []


def test_no_two_pages_create_one_stream() -> None:
    """Pages share a mesh: the second one would be refused, or read what the first one wrote."""
    created = [
        name for page in (DOCS / "tutorial.md", *GUIDES) for name in _CREATED.findall(page.read_text(encoding="utf-8"))
    ]
    assert sorted(created) == sorted(set(created))


def test_no_two_pages_name_one_group() -> None:
    """The group is registered with the streams of the first page to run: members of the second would be refused."""
    named = [
        name
        for page in (DOCS / "tutorial.md", *GUIDES)
        for name in set(_GROUPED.findall(page.read_text(encoding="utf-8")))
    ]
    assert sorted(named) == sorted(set(named))


def wait_healthy(directory: Path) -> None:
    """Waits until both clusters take traffic: the tutorial killed one, and guides begin with a whole mesh."""

    async def both() -> None:
        ready = ready_from_json((directory / ".braid" / "ready.json").read_text())
        async with braid.connect(ready.endpoint, client_id="docs", tls=ready.user_tls) as mesh:

            async def healthy() -> bool:
                registry = mesh.service("registry")
                answer = await registry.unary("ListClusters", ListClustersRequest(), ListClustersResponse)
                found = [each.status.health for each in answer.clusters]
                return found == [ClusterHealth.CLUSTER_HEALTH_HEALTHY] * 2

            await until(healthy, "two healthy clusters", HEALTHY_SECONDS, poll=0.25)

    asyncio.run(both())


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_what_pages_point_to_exists(page: Path) -> None:
    links = _LINK.findall(re.sub(r"`[^`\n]*`", "", page.read_text()))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_for_readers_has_something_to_run() -> None:
    assert GUIDES
    assert [page.name for page in GUIDES if not snippets(page)] == []
