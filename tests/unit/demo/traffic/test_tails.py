"""A tail yields whole lines, once each, with their places."""

from pathlib import Path

from demo.traffic.tails import Line, Tail, newest_line


def test_only_ended_lines_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = Tail(path)
    assert tail.lines() == []
    path.write_bytes(b"one\ntw")
    assert tail.lines() == [Line(0, b"one")]
    assert tail.lines() == []
    with path.open("ab") as file:
        file.write(b"o\nthree\n")
    assert tail.lines() == [Line(4, b"two"), Line(8, b"three")]


def test_the_end_of_an_old_file_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"first line\nsecond\nthird\n")
    assert [line.text for line in Tail(path, last_bytes=9).lines()] == [b"third"]
    assert [line.text for line in Tail(path, last_bytes=1_000).lines()] == [b"first line", b"second", b"third"]


def test_the_newest_line_says_something(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert newest_line(path) == "it left no log"
    path.write_bytes(b"")
    assert newest_line(path) == "it wrote nothing"
    path.write_bytes(b"Traceback\nValueError: no\n\n")
    assert newest_line(path) == "ValueError: no"
