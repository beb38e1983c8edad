"""Tasks are read from a browser's trace."""

import pytest

from bench.harness.console_tab import tasks_of

PAGE, OTHER, WORKER = (1, 10), (2, 20), (1, 11)


def main(thread: tuple[int, int], name: str = "CrRendererMain") -> dict[str, object]:
    """The event that names a thread."""
    return {"ph": "M", "pid": thread[0], "tid": thread[1], "name": "thread_name", "args": {"name": name}}


def task(thread: tuple[int, int], micros: int, cpu_micros: int, name: str = "RunTask") -> dict[str, object]:
    """A task of a thread."""
    return {"ph": "X", "pid": thread[0], "tid": thread[1], "name": name, "dur": micros, "tdur": cpu_micros}


def test_tasks_of_the_page_are_counted_and_no_others() -> None:
    events = [
        main(PAGE),
        main(OTHER),
        main(WORKER, "ThreadPoolForegroundWorker"),
        task(PAGE, 80_000, 20_000),
        task(PAGE, 70_000, 60_000),
        task(PAGE, 1_000, 900),
        task(PAGE, 90_000, 90_000, "Layout"),
        task(OTHER, 95_000, 95_000),
        *[task(WORKER, 99_000, 99_000)] * 5,
    ]
    found = tasks_of({"traceEvents": events})
    assert found.wall_ms == [80.0, 70.0, 1.0]
    assert found.cpu_ms == [20.0, 60.0, 0.9]
    assert found.long() == 2
    assert found.long_of_processor() == 1


def test_a_trace_without_tasks_says_nothing() -> None:
    with pytest.raises(ValueError, match="no task"):
        tasks_of({"traceEvents": [main(PAGE), task(WORKER, 1, 1)]})
