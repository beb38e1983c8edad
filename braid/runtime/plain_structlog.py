"""Imports structlog without Rich, which it uses only for tracebacks on terminals: an eighth of a start's CPU time."""

import sys

__all__ = ["structlog"]

_loaded = sys.modules.get("rich")
if _loaded is None:
    sys.modules["rich"] = None  # type: ignore[assignment]  # importlib's way to say that a module is not to be had
try:
    import structlog
finally:
    if _loaded is None:
        del sys.modules["rich"]
