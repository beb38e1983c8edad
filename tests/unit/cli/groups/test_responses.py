"""`set responses`: typed, asked of a real assigner, and shown where a group is shown."""

import json

import pytest

from braid.cli.core.documents import Document
from braid.cli.resources.group_responses import response_lines, values_text
from tests.unit.cli.groups.test_verbs import with_members
from tests.unit.cli.mesh import virtual


@virtual
async def test_a_response_policy_is_set_shown_and_removed() -> None:
    async with with_members("web-1") as shell:
        assert "Responses:" not in (await shell.braid("describe", "group", "indexer")).out
        line = "set responses indexer shift-shares automatic --budget 2 --reach 0.9 --cooldown 20s --undo-after 2m"
        told = await shell.braid(*line.split())
        assert told.out == "group/indexer responses: shift-shares automatic, 2 at once, reach 0.9\n"
        told = await shell.braid(*["set", "responses", "indexer", "split-backlog", "propose", "--lane", "live"])
        assert told.out.endswith("; split-backlog on live propose, 4 at once, reach 0.2\n")
        described = (await shell.braid("describe", "group", "indexer")).out
        assert (
            "Responses:\n  shift-shares automatic, 2 at once, reach 0.9\n  split-backlog on live propose" in described
        )
        document = json.loads((await shell.braid("get", "group", "indexer", "-o", "json")).out)
        policy = document["responses"]["policies"][0]
        assert (policy["cooldown_seconds"], policy["undo_after_seconds"]) == (20, 120)
        events = (await shell.braid("events", "--for", "group/indexer")).out
        assert " ResponsesSet " in events
        for kind, lane in (("shift-shares", ""), ("split-backlog", "--lane live")):
            told = await shell.braid(*f"set responses indexer {kind} off {lane}".split())
        assert told.out == "group/indexer responses: off\n"
        assert "Responses:" not in (await shell.braid("describe", "group", "indexer")).out


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("set responses indexer shift-share automatic", 2, "use shift-shares, split-backlog"),
        ("set responses indexer shift-shares always", 2, "use off, propose, automatic"),
        ("set responses indexer shift-shares automatic --budget 0", 2, "use 1 to 100, or switch it off"),
        ("set responses indexer shift-shares automatic --reach 1.5", 2, "less than 1"),
        ("set responses indexer shift-shares automatic --lane lvie", 4, "use bulk, live"),
        ("set responses indexer shift-shares automatic --cooldown soon", 2, "for example 30m"),
        ("set responses indxer shift-shares automatic", 4, "did you mean indexer?"),
    ],
)
def test_a_bad_response_policy_gets_a_precise_error(line: str, code: int, told: str) -> None:
    @virtual
    async def scenario() -> None:
        async with with_members("web-1") as shell:
            result = await shell.braid(*line.split())
            assert (result.code, result.out) == (code, "")
            assert told in result.err
            assert "Traceback" not in result.err

    scenario()


def test_responses_are_shown_with_figures_and_reasons() -> None:
    taken: Document = {
        "kind": "shift_shares",
        "lane": "live",
        "subject": "",
        "state": "applied",
        "before": [{"name": "bulk", "value": 3.0}, {"name": "live", "value": 1.0}],
        "after": [{"name": "bulk", "value": 1.0}, {"name": "live", "value": 4.0}],
        "reason": "logs/live is late",
        "since_ms": 60_000,
    }
    undone: Document = {"kind": "split_backlog", "lane": "live", "subject": "logs/live/1/0", "time_ms": 60_000}
    lines = response_lines({"responses": {"policies": [], "responses": [taken], "undone": [undone]}}, 65_000)
    assert lines == [
        "Responses:",
        "  shift-shares live applied 5s ago: bulk=3,live=1 -> bulk=1,live=4",
        "    logs/live is late",
        "  split-backlog live logs/live/1/0 undone 5s ago",
    ]
    assert values_text(None) == ""
