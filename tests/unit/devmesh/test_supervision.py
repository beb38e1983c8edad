"""Which processes are restarted, when, and which stay down; and the order of starts and stops."""

import pytest

from devmesh.supervision import (
    Action,
    DesiredState,
    ProcessKind,
    ProcessState,
    Verb,
    backoff_seconds,
    plan,
    start_stages,
    stop_stages,
)

RUNNING = ProcessState("registry-0", ProcessKind.SERVICE, DesiredState.RUN, True, False, 0, None, 0.0)
ENDED = RUNNING._replace(alive=False)


def verbs(state: ProcessState, now: float = 100.0) -> list[Verb]:
    return [action.verb for action in plan([state], now)]


def test_what_runs_is_left_alone() -> None:
    assert verbs(RUNNING) == []
    assert verbs(RUNNING._replace(desired=DesiredState.PAUSE)) == []


def test_an_end_is_noted_before_anything_is_done() -> None:
    for kind in ProcessKind:
        assert verbs(ENDED._replace(kind=kind)) == [Verb.NOTE_END]


def test_a_crashed_service_and_store_come_back_after_their_wait() -> None:
    for kind in (ProcessKind.SERVICE, ProcessKind.STORE):
        noted = ENDED._replace(kind=kind, crashes=3, ended_at=100.0)
        wait = backoff_seconds(3)
        assert verbs(noted, 100.0 + wait * 0.99) == []
        assert verbs(noted, 100.0 + wait) == [Verb.RESTART]


def test_a_crashed_cluster_stays_down() -> None:
    assert verbs(ENDED._replace(kind=ProcessKind.CLUSTER, crashes=1, ended_at=1.0), 1e9) == []


def test_what_a_verb_put_down_stays_down() -> None:
    assert verbs(ENDED._replace(desired=DesiredState.REST)) == []
    assert verbs(ENDED._replace(desired=DesiredState.REST, ended_at=1.0, crashes=1), 1e9) == []


def test_what_ends_while_paused_is_noted_and_stays_down() -> None:
    paused = ENDED._replace(desired=DesiredState.PAUSE)
    assert verbs(paused) == [Verb.NOTE_END]
    assert verbs(paused._replace(ended_at=1.0, crashes=1), 1e9) == []


def test_nothing_is_done_while_a_verb_is_at_work() -> None:
    assert verbs(ENDED._replace(busy=True)) == []
    assert verbs(ENDED._replace(busy=True, ended_at=1.0, crashes=1), 1e9) == []


def test_a_steady_service_counts_anew() -> None:
    shaky = RUNNING._replace(crashes=5, started_at=100.0)
    assert verbs(shaky, 101.0) == []
    assert verbs(shaky, 200.0) == [Verb.FORGIVE]


def test_waits_grow_to_a_bound() -> None:
    waits = [backoff_seconds(crashes) for crashes in range(1, 40)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.25, 10.0)


def test_each_process_is_judged_for_itself() -> None:
    other = ENDED._replace(name="east", kind=ProcessKind.CLUSTER)
    assert plan([RUNNING, other], 1.0) == [Action(Verb.NOTE_END, "east")]


@pytest.mark.parametrize(
    ("store", "fresh", "stages"),
    [
        ([], True, [["east", "registry-0"]]),
        ([], False, [["east"], ["registry-0"]]),
        (["etcd"], True, [["etcd"], ["east", "registry-0"]]),
        (["etcd"], False, [["etcd"], ["east"], ["registry-0"]]),
    ],
)
def test_services_wait_for_the_clusters_of_a_used_directory(
    store: list[str], fresh: bool, stages: list[list[str]]
) -> None:
    assert start_stages(["east"], ["registry-0"], store, fresh) == stages


def test_services_stop_first_and_the_store_last() -> None:
    assert stop_stages(["east"], ["registry-0"], ["etcd"]) == [["registry-0"], ["east"], ["etcd"]]
    assert stop_stages([], [], []) == []
