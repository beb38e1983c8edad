"""The demo's output: plain lines in a pipe, colours and bars on a terminal."""

import io

import pytest

from demo.display import Display
from demo.proof.verdict import Row


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_plain_lines_and_no_bar() -> None:
    out = io.StringIO()
    display = Display(out)
    display.act("clusters start")
    display.progress(1, 2, "half")
    display.done("ready")
    display.table([Row("lost", "0", "0"), Row("late", "9 s", "≤ 1 s", kept=False)])
    display.complaint("nothing came", "x.log")
    display.verdict(False, "after 1 s")
    lines = out.getvalue().splitlines()
    assert "\x1b" not in out.getvalue()
    assert "\r" not in out.getvalue()
    assert lines[0].endswith("s  clusters start")
    assert lines[1].endswith("✓ ready")
    assert "half" not in out.getvalue()
    assert lines[3:5] == ["  lost    0   0      ✓", "  late  9 s   ≤ 1 s  ✗"]
    assert lines[-3:] == ["  ✗ nothing came", "    look first: x.log", "FAILED  after 1 s"]


def test_a_terminal_gets_a_bar_that_the_next_line_replaces() -> None:
    out = Terminal()
    display = Display(out, colours=True)
    display.progress(1, 2, "half")
    display.done("ready")
    bar, rest = out.getvalue().split("half")
    assert "█" * 12 + "·" * 12 in bar
    assert rest.startswith("\r\x1b[K")
    assert "\x1b[32m✓\x1b[0m" in rest


def test_no_color_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    out = Terminal()
    Display(out).fault("killed")
    assert "\x1b[" not in out.getvalue()
