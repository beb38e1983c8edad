"""The verdict is ok only when all of it is, and `verdict.json` has exactly the promised form."""

from dataclasses import replace

import pytest

from demo.proof.evidence import Evidence
from demo.proof.table import Comparison
from demo.proof.verdict import Scenes, Verdict

GOOD = Scenes(
    target=2,
    kafka="4.3.1",
    seconds=61.04,
    cluster="east",
    first_ack_elsewhere_ms=2650.4,
    returned=True,
    drained_ms=11_232.0,
    takeover_ms=27.6,
    move_stall_ms=515.0,
    answered_ms=7_900.4,
    undone_ms=24_500.0,
    table=Comparison(rows=3),
    lag_seconds_max=3.04,
    lag_seconds_final=0.0,
    memory_bytes_max=2_345_678_901,
)
LEDGER = [
    b"p:1 east live 1 process d1",
    b"p:2 east bulk 2 poison d2",
    b"p:3 west live 3 thread d3",
]


def evidence(processed: tuple[str, ...] = ("p:1", "p:2", "p:3"), dead: tuple[str, ...] = ("p:2",)) -> Evidence:
    found = Evidence()
    found.ledger(LEDGER)
    found.sink("member-1", [f"{identity} t/live/1/0 1 1 1250".encode() for identity in processed])
    found.dead_letters(dead)
    return found


def test_the_document_has_the_promised_form() -> None:
    assert Verdict(GOOD, evidence()).document() == {
        "ok": True,
        "store": "sqlite",
        "kafka": "4.3.1",
        "seconds": 61.0,
        "records": {"acked": 3, "processed": 3, "lost": 0, "duplicates": 0, "dead_lettered": 1, "replayed": 1},
        "failover": {"cluster": "east", "first_ack_elsewhere_ms": 2650, "returned": True, "drained_ms": 11232},
        "event_store": {"rows": 3, "missing": 0, "twice": 0, "changed": 0, "foreign": 0, "disordered": 0},
        "responses": {"answered_ms": 7900, "undone_ms": 24500},
        "takeover": {"member_killed_to_first_record_ms": 28},
        "lag": {"max_seconds": 3.0, "final_seconds": 0.0},
        "memory": {"max_mb": 2346},
    }


def test_the_most_that_was_held_counts_and_too_much_is_marked() -> None:
    scenes = replace(GOOD)
    for held in (3_000_000_000, 4_100_000_000, 1_000_000_000):
        scenes.held(held)
    [row] = [row for row in Verdict(scenes, evidence()).rows() if "memory" in row.what]
    assert (row.value, row.promise, row.kept) == ("4.10 GB", "≤ 4 GB", False)
    assert Verdict(scenes, evidence()).ok


def test_without_an_event_store_nothing_is_said_of_one() -> None:
    verdict = Verdict(replace(GOOD, event_store=False, table=None), evidence())
    assert verdict.ok
    assert "event_store" not in verdict.document()
    assert not [row for row in verdict.rows() if "event-store" in row.what]


@pytest.mark.parametrize(
    ("scenes", "found", "complaint"),
    [
        pytest.param(
            GOOD, evidence(processed=("p:1", "p:2")), "1 acknowledged records are lost: p:3 (live on west)", id="lost"
        ),
        pytest.param(replace(GOOD, target=4), evidence(), "3 of them distinct: fewer than 4", id="too few"),
        pytest.param(replace(GOOD, first_ack_elsewhere_ms=None), evidence(), "no failover", id="no failover"),
        pytest.param(replace(GOOD, drained_ms=None), evidence(), "not drained", id="not drained"),
        pytest.param(replace(GOOD, answered_ms=None), evidence(), "not answered", id="not answered"),
        pytest.param(replace(GOOD, undone_ms=None), evidence(), "not undone", id="not undone"),
        pytest.param(replace(GOOD, table=None), evidence(), "was not compared", id="no table"),
        pytest.param(
            replace(GOOD, table=Comparison(rows=2, missing={"p:3"})),
            evidence(),
            "1 missing (p:3)",
            id="table lacks one",
        ),
        pytest.param(replace(GOOD, takeover_ms=None), evidence(), "taken over", id="no takeover"),
        pytest.param(
            GOOD, evidence(processed=("p:1", "p:2", "p:3"), dead=()), "dead letters are not accounted", id="no letter"
        ),
        pytest.param(
            GOOD,
            evidence(processed=("p:1", "p:2"), dead=("p:2", "p:3")),
            "dead letters are not accounted",
            id="a letter too many",
        ),
        pytest.param(GOOD, evidence(processed=("p:1", "p:3")), "0 of 1 dead letters handled", id="no replay"),
        pytest.param(replace(GOOD, lag_seconds_final=None), evidence(), "no end of the lag", id="lag stays"),
        pytest.param(replace(GOOD, failure="waited 60 s", look="x.log"), evidence(), "waited 60 s", id="ended early"),
    ],
)
def test_one_broken_promise_spoils_it(scenes: Scenes, found: Evidence, complaint: str) -> None:
    verdict = Verdict(scenes, found)
    assert not verdict.ok
    assert verdict.document()["ok"] is False
    [only] = verdict.complaints()
    assert complaint in only.what
    assert only.look


def test_equal_records_do_not_reach_the_target() -> None:
    found = evidence()
    found.ledger([b"p:4 west live 4 thread d3"])
    found.sink("member-1", [b"p:4 t/live/1/0 1 1 1"])
    verdict = Verdict(replace(GOOD, target=4), found)
    assert not verdict.ok


def test_the_table_marks_a_missed_figure() -> None:
    rows = {row.what: row for row in Verdict(replace(GOOD, takeover_ms=1_500.0), evidence()).rows()}
    assert not rows["member killed → a survivor handles its records"].kept
    assert rows["lost"].kept


def test_a_run_that_measured_nothing_still_has_a_verdict() -> None:
    verdict = Verdict(Scenes(target=1, failure="no Java", look="dev.log"), Evidence())
    assert not verdict.ok
    assert next(iter(verdict.complaints())).what == "no Java"
    assert any(row.value == "never" for row in verdict.rows())
