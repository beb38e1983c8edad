"""`set scaling`: typed, asked of a real assigner, and shown where a group is shown."""

import json

import pytest

from tests.unit.cli.groups.test_verbs import with_members
from tests.unit.cli.mesh import virtual


@virtual
async def test_a_scaling_policy_is_set_shown_and_removed() -> None:
    async with with_members("web-1") as shell:
        assert "Scaling:" not in (await shell.braid("describe", "group", "indexer")).out
        assert (await shell.braid("get", "groups", "-o", "wide")).out.splitlines()[1].split()[-1] != "2"
        line = "set scaling indexer automatic --min 2 --max 6 --cooldown 2m --window 30m --factor 1.5"
        told = await shell.braid(*line.split())
        assert told.out == "group/indexer scaling: automatic, 2 to 6 members; 2 desired\n"
        described = (await shell.braid("describe", "group", "indexer")).out
        assert "Scaling:\n  policy    automatic, 2 to 6 members\n  members   1 now, 2 desired for " in described
        assert "  why       a policy of 2 to 6 members was set when the group had 1\n" in described
        head, row = (await shell.braid("get", "groups", "-o", "wide")).out.splitlines()[:2]
        assert row[head.index("DESIRED") :].split()[0] == "2"
        policy = json.loads((await shell.braid("get", "group", "indexer", "-o", "json")).out)["scaling"]["policy"]
        assert (policy["cooldown_seconds"], policy["window_seconds"], policy["factor"]) == (120, 1_800, 1.5)
        events = (await shell.braid("events", "--for", "group/indexer")).out
        (row,) = (line for line in events.splitlines() if " CapacityDesired " in line)
        assert "a policy of 2 to 6 members was set" in row
        assert (await shell.braid("set", "scaling", "indexer", "off")).out == "group/indexer scaling: off\n"
        assert "Scaling:" not in (await shell.braid("describe", "group", "indexer")).out


@pytest.mark.parametrize(
    ("line", "code", "told"),
    [
        ("set scaling indexer often --max 4", 2, "use off, propose, automatic"),
        ("set scaling indexer automatic", 2, "0 members at most is out of bounds"),
        ("set scaling indexer automatic --max 4 --min 5", 2, "use 5 (the least) to 10000"),
        ("set scaling indexer automatic --max 4 --window soon", 2, "for example 30m"),
        ("set scaling indxer automatic --max 4", 4, "did you mean indexer?"),
    ],
)
def test_a_bad_policy_gets_a_precise_error(line: str, code: int, told: str) -> None:
    @virtual
    async def scenario() -> None:
        async with with_members("web-1") as shell:
            result = await shell.braid(*line.split())
            assert (result.code, result.out) == (code, "")
            assert told in result.err
            assert "Traceback" not in result.err

    scenario()
