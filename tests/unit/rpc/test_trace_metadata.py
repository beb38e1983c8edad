"""Trace context in a call's metadata: one parent as text, else none."""

import pytest

from braid.kernel.ports import NO_TRACE, CallOptions, TraceContext
from braid.rpc.authenticators import Metadata, call_metadata, caller_of

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_what_is_sent_beside_a_call_is_read_again() -> None:
    sent = call_metadata(CallOptions(1.0, trace=TraceContext(PARENT, "a=b")))
    assert caller_of(sent, "x", None).trace == TraceContext(PARENT, "a=b")
    assert not [key for key, _ in call_metadata(CallOptions(1.0)) if key.startswith("trace")]


@pytest.mark.parametrize(
    "metadata",
    [
        [("traceparent", PARENT), ("traceparent", PARENT)],
        [("traceparent", PARENT.encode())],
        [("tracestate", "a=b")],
    ],
)
def test_a_parent_that_is_not_one_text_counts_as_none(metadata: Metadata) -> None:
    assert caller_of(metadata, "x", None).trace == NO_TRACE
