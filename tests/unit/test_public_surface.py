"""The names and signatures that applications may rely on, pinned. A change here is a change for users."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import braid
import braid.sync
from braid.testing import MemoryMesh

GOLDEN: Final = Path(__file__).resolve().parents[1] / "golden" / "public_surface.txt"


def surface() -> str:
    """All names of `braid`, `braid.sync` and `braid.testing`, with the signatures of what can be called."""
    lines = [line for name in sorted(braid.__all__) for line in described(f"braid.{name}", getattr(braid, name))]
    for name in ("Consumer", "Mesh", "Producer", "Record", "connect"):
        lines += described(f"braid.sync.{name}", getattr(braid.sync, name))
    lines += described("braid.testing.MemoryMesh", MemoryMesh)
    return "\n".join(lines) + "\n"


def described(path: str, value: object) -> list[str]:
    """A line for a function, or for a class and each of its public members."""
    if not inspect.isclass(value):
        assert callable(value)
        return [f"{path}{signature(value)}"]
    if issubclass(value, braid.BraidError):
        return [f"{path}({value.__mro__[1].__name__}) {value.code.name} {value.reason}"]
    lines = [f"{path}{fields(value)}"]
    for name in sorted(dir(value)):
        member = inspect.getattr_static(value, name)
        if name.startswith("_") or name in dir(tuple):
            continue
        if inspect.isfunction(member):
            kind = "async " if inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member) else ""
            lines.append(f"  {kind}{name}{signature(member)}")
        else:
            lines.append(f"  {name}")
    return lines


def signature(value: Callable[..., object]) -> str:
    """Parameters and types without the modules these live in, and without the quotes of types imported late."""
    unquoted = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])", "", unquoted)


def fields(value: type) -> str:
    """The constructor of a class users construct."""
    constructed = ("Circuit", "Outgoing", "Retry", "RetryBudget", "MemoryMesh", "Tls", "Token")
    return signature(value) if value.__name__ in constructed else ""


def test_the_public_surface_is_as_pinned() -> None:
    assert surface() == GOLDEN.read_text(encoding="utf-8"), "on purpose? then write surface() to the golden file"


def test_every_public_name_is_documented() -> None:
    missing = [name for name in braid.__all__ if not inspect.getdoc(getattr(braid, name))]
    assert missing == []


def test_what_is_imported_lazily_is_exactly_what_is_public() -> None:
    homes = [name for names in braid._HOMES.values() for name in names]
    assert sorted(homes) == sorted(braid.__all__)
