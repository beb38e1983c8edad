"""A drill's processes receive what they are told: their command lines, their orders."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from braid.drill.arguments import ProcessSpec, read_arguments
from braid.drill.orders import Refuse, read_orders


def test_a_command_line_is_read_as_it_was_written() -> None:
    spec = ProcessSpec("p", "a:1,b:2", "drill-x", Path("/tmp/p.lines"), ["live", "bulk"], 50)
    assert read_arguments("p", spec.arguments()) == spec


def test_orders_arrive_one_by_one_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    orders = [Refuse(["a:1", "b:2"], "east", "a:1"), Refuse([])]
    reading, writing = os.pipe()
    os.write(writing, b"".join(each.line() for each in orders))
    os.close(writing)

    async def scene() -> list[Refuse]:
        with os.fdopen(reading) as pipe:
            monkeypatch.setattr(sys, "stdin", pipe)
            return [each async for each in read_orders()]

    assert asyncio.run(scene()) == orders
