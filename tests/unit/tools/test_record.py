"""The picture of a terminal: it shows what stayed on the screen of a run that worked, and loads nothing."""

import sys
from pathlib import Path

import pytest

from tools import record


def test_a_line_drawn_again_shows_its_last_state_in_colour() -> None:
    printed = "\x1b[1mTitle\x1b[0m\r\nbar 1\r\x1b[Kbar 2\r\x1b[K\x1b[32mdone\x1b[0m\r\n\x1b[?25h"
    assert record.screen(printed) == "\x1b[1mTitle\x1b[0m\n\x1b[32mdone\x1b[0m\n"


def test_a_picture_has_its_words_and_loads_nothing() -> None:
    picture = record.draw("\x1b[32mall\x1b[0m <well> & {good}\n", "make {demo}", 40)
    assert "&lt;well&gt;" in picture and "<title>make {demo}</title>" in picture and "#3fb950" in picture
    assert picture.count("http") == picture.count("http://www.w3.org/2000/svg") == 1


def test_a_recorded_command_is_drawn_again_from_what_was_saved(tmp_path: Path) -> None:
    picture = tmp_path / "run.svg"
    command = [sys.executable, "-c", "import sys, os; print(sys.stdout.isatty(), os.get_terminal_size().columns)"]
    assert record.main(["--width", "70", "--title", "a run", str(picture), *command]) == 0
    assert (tmp_path / "run.txt").read_text() == "True 70\n"
    again = tmp_path / "again.svg"
    assert record.main(["--width", "70", "--title", "a run", "--from", str(tmp_path / "run.txt"), str(again)]) == 0
    assert again.read_text() == picture.read_text()


def test_the_demo_s_picture_is_drawn_from_the_saved_output() -> None:
    pictures = Path(__file__).resolve().parents[3] / "docs" / "pictures"
    saved, picture = (pictures / "demo.txt").read_text(), (pictures / "demo.svg").read_text()
    assert "\x1b[32m✓\x1b[0m" in saved and "\x1b[33m✗" in saved
    assert picture == record.draw(saved, "make demo", record.WIDTH)


def test_a_command_that_fails_leaves_no_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert record.main([str(tmp_path / "run.svg"), sys.executable, "-c", "raise SystemExit(3)"]) == 3
    assert "ended with 3: no picture was drawn" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
