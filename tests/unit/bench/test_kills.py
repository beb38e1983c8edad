"""The table of kills: what is compared with the classic group, and what a broken invariant does to it."""

from bench.kills import AGAIN, CLUSTER_KILLS_MAX, NAMES, PEER, ROUND, decks, table
from bench.rounds import ROUNDS_MIN
from tests.e2e.chaos.run import Report
from tests.support.checkers import Violation

OWN_MS = {"kill member": 50.0, PEER: 10_000.0, AGAIN: 10_100.0, "move": 20.0, "kill cluster": 2_000.0}


def report() -> Report:
    """A discarded round and seven that count; fewer kills of a cluster."""
    rounds = {name: CLUSTER_KILLS_MAX if name == "kill cluster" else ROUNDS_MIN + 1 for name in NAMES}
    return Report(1, figures={NAMES[name]: [OWN_MS[name]] * count for name, count in rounds.items()})


def test_a_member_is_compared_with_a_classic_one_and_the_rest_with_nobody() -> None:
    found = table(report())
    assert found.verdict == ""
    ratios = {row.name: row.ratio for row in found.rows}
    assert (ratios["kill member"], ratios["move"], ratios["kill cluster"]) == (200.0, None, None)
    assert {row.name: row.wall_micros / 1e3 for row in found.rows} == OWN_MS


def test_a_broken_invariant_voids_the_run() -> None:
    broken = report()
    broken.violations.append(Violation("I1 loss", "a record is lost", 0))
    assert table(broken).verdict == "void: 1 violations of invariants"


def test_a_cluster_is_killed_only_so_often() -> None:
    played = list(decks(ROUNDS_MIN))
    assert len(played) == ROUNDS_MIN + 1
    assert sum("kill cluster" in deck for deck in played) == CLUSTER_KILLS_MAX
    assert all(set(ROUND) <= set(deck) for deck in played)
