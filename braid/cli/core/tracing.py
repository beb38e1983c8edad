"""The span of one command, where OpenTelemetry's variables name a place for it. Else nothing is loaded.

It is the first span of its trace, or continues the one in `TRACEPARENT`, as a CI job or a shell sets it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

# The span is named after the verb, `braid move`. Its arguments may be confidential, so they are left out.
COMMAND: Final[ContextVar[str]] = ContextVar("the command that runs", default="braid")
_PREFIXES: Final = ("OTEL_EXPORTER_OTLP_", "OTEL_TRACES_EXPORTER")


@contextmanager
def traced_command(environ: Mapping[str, str]) -> Iterator[None]:
    """Surrounds a command's work by its span, and sends it at the end, for a second at most.

    Raises:
        Invalid: the environment names an exporter that is not known or not installed.
    """
    if not any(key.startswith(_PREFIXES) for key in environ):
        yield
        return
    from braid.telemetry.commands import command_span

    with command_span(COMMAND.get(), environ):
        yield
