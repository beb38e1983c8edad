"""Writes and reads pathway headers with Datadog's own library, in a Python that has `ddtrace`.

It reads a document on standard input and writes one on standard output. It imports nothing of Braid.

    {"service": …, "steps": [{"tags": […], "now_ms": …}, …]}   the header after each step of one pathway
    {"headers": […]}                                           what each header says
"""

import json
import os
import sys
import threading
from typing import Any

# Its tags of the process would make the same service another one in each container.
os.environ |= {
    "DD_EXPERIMENTAL_PROPAGATE_PROCESS_TAGS_ENABLED": "false",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_ENABLED": "false",
}


def main() -> None:
    """Answers one document."""
    asked = json.load(sys.stdin)
    os.environ["DD_SERVICE"] = asked.get("service", "shop")
    json.dump({"steps": _steps(asked["steps"])} if "steps" in asked else {"read": _read(asked["headers"])}, sys.stdout)


def _processor() -> Any:
    """Datadog's processor, without its thread and its agent."""
    from ddtrace.internal.datastreams.processor import DataStreamsProcessor  # type: ignore[import-not-found]

    class Quiet(DataStreamsProcessor):  # type: ignore[misc]
        def __init__(self) -> None:
            self._current_context = threading.local()
            self.latencies: tuple[float, float] = (0.0, 0.0)

        def on_checkpoint_creation(self, *checkpoint: Any, **_: Any) -> None:
            self.latencies = checkpoint[4], checkpoint[5]

    return Quiet()


def _steps(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    from ddtrace.internal.datastreams.processor import DsmPathwayCodec

    processor, found = _processor(), []
    headers: dict[str, str] = {}
    for step in steps:
        context = (
            DsmPathwayCodec.decode(headers, processor) if headers else processor.new_pathway(step["now_ms"] / 1000)
        )
        context.set_checkpoint(step["tags"], now_sec=step["now_ms"] / 1000)
        headers = {}
        DsmPathwayCodec.encode(context, headers)
        edge, full = processor.latencies
        (header,) = headers.values()
        found.append({"hash": str(context.hash), "header": header, "edge_ms": edge * 1000, "full_ms": full * 1000})
    return found


def _read(headers: list[str]) -> list[list[str]]:
    from ddtrace.internal.datastreams.processor import DsmPathwayCodec

    processor = _processor()
    contexts = [DsmPathwayCodec.decode({"dd-pathway-ctx-base64": header}, processor) for header in headers]
    return [
        [str(each.hash), str(round(each.pathway_start_sec * 1000)), str(round(each.current_edge_start_sec * 1000))]
        for each in contexts
    ]


if __name__ == "__main__":
    main()
