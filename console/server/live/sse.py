"""Server-sent events as bytes (HTML Living Standard, section 9.2). Pure."""

from braid.rpc.documents import Document
from console.server.json_text import json_bytes


def sse_event(name: str, data: Document, id: str = "") -> bytes:
    """One event. JSON has no line breaks of its own, so `data` is one line."""
    head = f"event: {name}\n" + (f"id: {id}\n" if id else "")
    return head.encode() + b"data: " + json_bytes(data) + b"\n\n"
