"""The entry point of `opentelemetry-instrument`: `opentelemetry_instrumentor: braid`.

Braid makes its spans and metrics by OpenTelemetry's API itself, so nothing is patched. The instrumentor lets a process
name the provider of Braid's spans, and end them. `OTEL_PYTHON_DISABLED_INSTRUMENTATIONS=braid` makes none at all.
"""

from collections.abc import Collection
from typing import Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]
from opentelemetry.trace import NoOpTracerProvider, TracerProvider

from braid.telemetry.tracing import use_provider


class BraidInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # it has no types
    """Switches Braid's spans on and off for clients, producers and consumers that are opened afterwards."""

    def instrumentation_dependencies(self) -> Collection[str]:
        """Names what is instrumented."""
        return ("braid-streams",)

    def _instrument(self, **settings: Any) -> None:
        provider = settings.get("tracer_provider")
        use_provider(provider if isinstance(provider, TracerProvider) else None)

    def _uninstrument(self, **settings: Any) -> None:
        use_provider(NoOpTracerProvider())
