"""Pages over a mesh: what they show, and how each part grows stale by itself."""

from tests.support.console_mesh import ConsoleMesh
from tests.unit.cli.mesh import Shell, virtual


@virtual
async def test_overview_counts_what_the_mesh_has() -> None:
    shell = await Shell().start("east", "west")
    assert (await shell.braid("create", "stream", "logs", "--lane", "live=2")).code == 0
    browser = await ConsoleMesh(shell).signed_in()
    answer = await browser.get("/api/views/overview")
    print(answer.json)
    assert answer.status == 200
