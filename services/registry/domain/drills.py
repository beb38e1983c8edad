"""Rules of drills: the events that commands about them lead to. Pure.

A drill is a stream with a mark (`model/clusters/drills.py`). The mark is set when the stream is created and never
changes. So an application's stream never becomes a drill, nor a drill an application's stream.
"""

from collections.abc import Sequence

from braid.kernel.access.tenants import DEFAULT_TENANT
from braid.kernel.errors import Invalid, Refused
from services.registry.model.clusters.drills import check_drill, check_verdict
from services.registry.model.stream_commands import EndDrill
from services.registry.model.stream_events import DrillBegan, DrillEnded, StreamCreated, StreamDeleted, StreamEvent
from services.registry.model.streams import Stream, StreamSpec


def begin(name: str, spec: StreamSpec, tenant: str = DEFAULT_TENANT) -> Sequence[StreamEvent]:
    """Creates a stream of a tenant; a stream with a mark begins a drill."""
    created = StreamCreated(spec, "" if tenant == DEFAULT_TENANT else tenant)
    if spec.drill is None:
        return [created]
    check_drill(name, spec.drill)
    return [created, DrillBegan(spec.drill, spec)]


def check_mark(present: StreamSpec, wanted: StreamSpec) -> None:
    """Raises `Invalid` for an update that would change the mark."""
    if wanted.drill != present.drill:
        message = "whether a stream rehearses a failure is decided when it is created"
        raise Invalid(message, field="spec.drill", remedy="leave it as it is")


def end(state: Stream, command: EndDrill) -> Sequence[StreamEvent]:
    """Records the verdict and deletes the drill's stream.

    Raises:
        Refused: the stream is no drill.
    """
    if state.spec.drill is None:
        message = f"stream {state.name} is no drill: an application may use it"
        raise Refused(message, field="stream", remedy=f"to delete it: braid delete stream {state.name}")
    check_verdict(command.verdict)
    return [DrillEnded(state.spec.drill, command.passed, command.verdict, state.spec), StreamDeleted()]
