"""How long an event loop is held, and by what: gaps between turns of a task, and stacks that a thread takes in them."""

import asyncio
import contextlib
import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Final

HELD_SECONDS: Final = 0.05  # a browser calls a task of this length long
_MEASURE_SECONDS: Final = 0.001
_LOOK_SECONDS: Final = 0.01
_FRAMES: Final = 6  # innermost ones of this project, named in a stack
_ROOT: Final = str(Path(__file__).parents[2])


class LoopStalls:
    """The stalls of the running loop, by phase.

    Attributes:
        phase: Which of them the present stalls belong to.
    """

    def __init__(self) -> None:
        self.phase = "start"
        self._gaps: dict[str, list[float]] = {}
        self._stacks: dict[str, Counter[str]] = {}
        self._collecting: dict[str, float] = {}  # the longest collection of garbage
        self._collection_began = 0.0
        self._beat = time.monotonic()
        self._over = threading.Event()

    def longest_ms(self, phase: str) -> float:
        """The longest time without a turn in a phase, milliseconds."""
        return max(self._gaps.get(phase, [0.0])) * 1e3

    def told(self, phase: str) -> str:
        """The stalls of a phase in words, with the stack that was seen most often in them."""
        held = [gap for gap in self._gaps.get(phase, []) if gap > HELD_SECONDS]
        if not held:
            return f"never held for more than {HELD_SECONDS * 1e3:g} ms"
        found = self._stacks.get(phase, Counter[str]()).most_common(1)
        where = f", most often by {found[0][0]}" if found else ""
        garbage = f"; the longest collection of garbage took {self._collecting.get(phase, 0.0) * 1e3:.0f} ms"
        return (
            f"held {len(held)} times for more than {HELD_SECONDS * 1e3:g} ms, {sum(held):.1f} s in all{where}{garbage}"
        )

    @contextlib.asynccontextmanager
    async def measured(self) -> AsyncIterator[None]:
        """Measures while the block runs."""
        beating = asyncio.ensure_future(self._measure())
        thread = threading.Thread(target=self._look, args=(threading.get_ident(),), daemon=True)
        thread.start()
        gc.callbacks.append(self._collected)
        try:
            yield
        finally:
            gc.callbacks.remove(self._collected)
            beating.cancel()
            self._over.set()
            thread.join()

    def _collected(self, event: str, info: Mapping[str, int]) -> None:
        now = time.monotonic()
        if event == "start":
            self._collection_began = now
        else:
            self._collecting[self.phase] = max(self._collecting.get(self.phase, 0.0), now - self._collection_began)

    async def _measure(self) -> None:
        self._beat = time.monotonic()
        while True:
            phase = self.phase
            await asyncio.sleep(_MEASURE_SECONDS)
            now = time.monotonic()
            self._gaps.setdefault(phase, []).append(now - self._beat - _MEASURE_SECONDS)
            self._beat = now

    def _look(self, loop_thread: int) -> None:
        while not self._over.wait(_LOOK_SECONDS):
            if time.monotonic() - self._beat > HELD_SECONDS:
                stack = _told(sys._current_frames().get(loop_thread))
                self._stacks.setdefault(self.phase, Counter())[stack] += 1


def _told(frame: FrameType | None) -> str:
    """The innermost functions of this project in a stack."""
    named: list[str] = []
    while frame is not None and len(named) < _FRAMES:
        code = frame.f_code
        if code.co_filename.startswith(_ROOT) and "site-packages" not in code.co_filename:
            named.append(f"{Path(code.co_filename).stem}.{code.co_name}")
        frame = frame.f_back
    return " < ".join(named)
