"""Tracebacks as dead letters keep them: whole, without their middle, or as a digest that tells like failures."""

import hashlib
import traceback
from collections.abc import Iterator
from pathlib import PurePath

from braid.kernel.limits.client import (
    DEAD_LETTER_CUT_LINE_CHARACTERS_MAX,
    DEAD_LETTER_CUT_LINES,
    DEAD_LETTER_HASHED_ERRORS_MAX,
)


def shown_traceback(error: BaseException, form: str) -> str:
    """Returns what a dead letter says of an error's traceback. It raises nothing, whatever the error is.

    Args:
        error: Why the record was given up.
        form: `full`; `cut`, the first and last lines, each up to a bound; `hash`, `sha256:` and 64 hexadecimal digits,
            the same for errors of the same classes from the same lines of code, whatever they say; `none`, nothing.
    """
    if form == "none":
        return ""
    if form == "hash":
        places = "\n".join(dict.fromkeys(_places(error)))  # once each: a recursion may go to any depth
        return f"sha256:{hashlib.sha256(places.encode()).hexdigest()}"
    whole = _formatted(error)
    return _cut(whole) if form == "cut" else whole


def _formatted(error: BaseException) -> str:
    """Returns the traceback of an error, or its class name if the error cannot be formatted."""
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - its notes, causes or text may raise anything; its record dies all the same
        return "".join([*traceback.format_tb(error.__traceback__), type(error).__name__])


def _cut(text: str) -> str:
    first, last = DEAD_LETTER_CUT_LINES
    lines, bound = text.splitlines(), DEAD_LETTER_CUT_LINE_CHARACTERS_MAX
    left_out = len(lines) - first - last
    if left_out > 1:
        lines[first:-last] = [f"… {left_out} lines"]
    return "\n".join(line if len(line) <= bound else f"{line[: bound - 1]}…" for line in lines)


def _places(error: BaseException) -> Iterator[str]:
    """Yields classes, and the files, functions and lines their errors came through; never what they say.

    A file's directory is left out, which is another on each machine. Causes and errors in groups follow, up to a bound.
    """
    waiting, seen = [error], set[int]()
    while waiting and len(seen) < DEAD_LETTER_HASHED_ERRORS_MAX:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield f"{type(each).__module__}.{type(each).__qualname__}"
        for frame, line in traceback.walk_tb(each.__traceback__):
            yield f"{PurePath(frame.f_code.co_filename).name}:{line}:{frame.f_code.co_name}"
        follows = each.__cause__ or (None if each.__suppress_context__ else each.__context__)
        if follows is not None:
            waiting.append(follows)
        if isinstance(each, BaseExceptionGroup):
            waiting.extend(each.exceptions)
