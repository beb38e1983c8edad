"""Shares of the cores' time, as a suite prints them."""

from pathlib import Path

import pytest

from tools.core_use import Meter, Ticks, parse

LINE = "cpu  {} {} 10 {} 0 0 0 99 0 0\ncpu0 1 2 3 4\n"


def test_the_kernels_line_is_read_by_its_columns() -> None:
    assert parse("cpu  1 20 300 4000 50000 600000 7000000 9 9 9\n") == Ticks(7_600_301, 20, 54_000)


def test_shares_are_of_the_time_between_two_readings(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(LINE.format(100, 1_000, 5_000))
    meter = Meter(stat)
    stat.write_text(LINE.format(160, 1_030, 5_010))
    use = meter.read()
    assert use.usual == pytest.approx(0.6)
    assert use.beside == pytest.approx(0.3)
    assert str(use).endswith(" s; it took 60% of the cores, and what runs beside 30%")


def test_without_the_kernels_count_the_wall_is_said(tmp_path: Path) -> None:
    use = Meter(tmp_path / "none").read()
    assert use.usual is None
    assert str(use) == "0 s"
