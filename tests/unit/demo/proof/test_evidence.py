"""Evidence in files: acknowledged, processed, dead-lettered records; who took over and when."""

from demo.proof.evidence import Evidence

MS = 1_000_000


def ledger_line(
    identity: str, *, cluster: str = "east", lane: str = "live", at_ms: int = 0, kind: str = "log"
) -> bytes:
    return f"{identity} {cluster} {lane} {at_ms * MS} {kind} {identity}-digest".encode()


def sink_line(identity: str, *, lease: str = "s/live/1/0", epoch: int = 1, at_ms: int = 0, age_ms: int = 5) -> bytes:
    return f"{identity} {lease} {epoch} {at_ms * MS} {age_ms}".encode()


def test_what_no_sink_holds_is_unsettled() -> None:
    evidence = Evidence()
    evidence.ledger([ledger_line("a"), ledger_line("b"), ledger_line("c", cluster="west")])
    evidence.sink("member-1", [sink_line("a")])
    assert evidence.unsettled() == {"b", "c"}
    assert evidence.stranded("east") == 1
    evidence.dead_letters(["b"])
    assert evidence.unsettled() == {"c"}
    assert evidence.replayed == set()
    evidence.sink("member-1", [sink_line("b")])
    assert evidence.replayed == {"b"}


def test_repeats_are_counted_over_all_members() -> None:
    evidence = Evidence()
    evidence.sink("member-1", [sink_line("a"), sink_line("b")])
    evidence.sink("member-2", [sink_line("b"), sink_line("b", age_ms=2_500)])
    assert evidence.duplicates == 2
    assert evidence.age_seconds_max == 2.5


def test_equal_observations_are_not_distinct() -> None:
    evidence = Evidence()
    evidence.ledger([b"a east live 1 log same", b"b east live 2 log same", b"c east live 3 log other"])
    assert (len(evidence.acked), evidence.distinct) == (3, 2)


def test_a_takeover_is_a_newer_epoch_elsewhere_after_the_kill() -> None:
    evidence = Evidence()
    held = {"s/live/1/0": 4}
    evidence.sink("victim", [sink_line("a", epoch=4, at_ms=10)])
    evidence.sink("other", [sink_line("b", lease="s/live/1/1", epoch=9, at_ms=30)])
    evidence.sink("other", [sink_line("c", epoch=4, at_ms=30)])
    assert evidence.first_takeover("victim", held, 20 * MS) is None
    evidence.sink("other", [sink_line("d", epoch=5, at_ms=45), sink_line("e", epoch=5, at_ms=40)])
    assert evidence.first_takeover("victim", held, 20 * MS) == 40 * MS


def test_busy_leases_are_those_with_records_since_then() -> None:
    evidence = Evidence()
    evidence.sink("m", [sink_line("a", lease="s/live/1/0", at_ms=5), sink_line("b", lease="s/live/1/1", at_ms=50)])
    evidence.sink("n", [sink_line("c", lease="s/live/1/2", at_ms=50)])
    assert evidence.busy_leases("m", 40 * MS) == {"s/live/1/1": 1}


def test_first_acknowledgements_elsewhere_are_told_by_lane() -> None:
    evidence = Evidence()
    evidence.ledger([ledger_line("a", cluster="west", at_ms=5), ledger_line("b", at_ms=25)])
    assert evidence.first_acks_elsewhere("east", 20 * MS) == {}
    evidence.ledger([ledger_line("c", cluster="west", at_ms=31), ledger_line("d", cluster="west", at_ms=30)])
    evidence.ledger([ledger_line("e", cluster="west", lane="bulk", at_ms=33)])
    assert evidence.first_acks_elsewhere("east", 20 * MS) == {"live": 30 * MS, "bulk": 33 * MS}


def test_the_cluster_under_load_is_the_one_that_acknowledges_now() -> None:
    evidence = Evidence()
    evidence.ledger([ledger_line("a", at_ms=1), ledger_line("b", cluster="west", at_ms=50)])
    assert evidence.carriers(40 * MS).most_common() == [("west", 1)]


def test_a_stall_is_any_lanes_longest_silence_in_the_window() -> None:
    evidence = Evidence()
    evidence.ledger([ledger_line(f"l{at}", at_ms=at) for at in (0, 100, 200, 300, 400)])
    evidence.ledger([ledger_line(f"b{at}", lane="bulk", at_ms=at) for at in (100, 350)])
    assert evidence.longest_stall_ms(100 * MS, 400 * MS, ["live"]) == 100
    assert evidence.longest_stall_ms(100 * MS, 400 * MS, ["live", "bulk"]) == 250
    assert evidence.longest_stall_ms(100 * MS, 400 * MS, ["silent"]) == 300
