"""Answers of the console's server about records of the invented mesh, some of them written by somebody hostile."""

from typing import Final

from tests.support.console.documents import HOSTILE, NOW_MS, Document

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
_VALUES: Final = (
    ("json", '{"level": "error", "user": {"id": 7}, "text": "disk is full"}'),
    ("text", HOSTILE),
    ("text", "\u202egpj.exe"),
    ("hex", "fffe00"),
    ("none", ""),
)


def _shown(form: str, text: str) -> Document:
    return {"form": form, "text": text, "cut": False, "reason": "", "schema": ""}


def _row(number: int, offset: int, lane: str = "live") -> Document:
    form, text = _VALUES[number % len(_VALUES)]
    return {
        "key": f"logs/{lane}/7/{number % 3}@{offset}",
        "channel": f"logs/{lane}/7",
        "lane": lane,
        "cluster": "west",
        "partition": number % 3,
        "offset": offset,
        "timestamp_ms": NOW_MS - number * 1_300,
        "ingested_at_ms": NOW_MS - number * 1_300 - 4,
        "id": f"01HX:{offset}",
        "trace_id": TRACE if number % 2 == 0 else "",
        "key_bytes": 6,
        "value_bytes": len(text) if form != "none" else -1,
        "header_count": 3,
        "key_shown": _shown("text", f"host-{number % 4}"),
        "value_shown": _shown(form, text),
    }


def found(body: Document) -> Document:
    """An answer of a hundred rows, and a cluster that nothing comes from."""
    begin = 900 - 100 * len(body.get("positions", {}))
    return {
        "rows": [_row(number, begin - number) for number in range(100)],
        "now_ms": NOW_MS,
        "lanes": ["bulk", "live"],
        "clusters": ["east", "west"],
        "partitions": 6,
        "looked_at": {"records": 400, "bytes": 1_234_567, "ms": 310},
        "ended_by": "rows",
        "positions": {"logs/live/7/0": begin - 100},
        "more": True,
        "absent": [{"cluster": "east", "reason": "it did not answer within 3 s", "remedy": "look at its page"}],
        "damaged": [],
        "cli": "braid consume logs --from=2026-11-29T13:57:51.300Z --max=100 -o json",
        "trace_link": "https://traces.example/{trace_id}",
    }


SENT: Final[Document] = {
    "key": "logs/live/7/0@900",
    "summary": "sent to logs/live/7 on west, partition 0, offset 900",
    "id": "01HX:900",
    "cli": "",
}
BEGAN: Final[Document] = {"cli": "braid consume logs --from=latest -o json", "trace_link": "", "now_ms": NOW_MS}


def followed(first: int, skipped: int = 0) -> Document:
    """An event of a tail: three rows, and how many records were left out before them."""
    rows = [_row(number, first + number) for number in range(3)]
    return {"rows": rows, "skipped": skipped, "absent": [], "now_ms": NOW_MS}


def in_full(key: str) -> Document:
    """The record of a row's key."""
    offset = int(key.rpartition("@")[2])
    row = _row(900 - offset, offset)
    headers = [("braid-id", f"01HX:{offset}"), (HOSTILE, "\u202ex"), ("traceparent", f"00-{TRACE}-b7ad6b7169203331-01")]
    return {
        **row,
        "topic": "braid.logs.live.7",
        "timestamp_type": "create",
        "headers": [{"name": name, "bytes": len(text), **_shown("text", text)} for name, text in headers],
        "key_hex": "686f7374",
        "value_hex": str(row["value_shown"]["text"]).encode().hex(),
        "shown_bytes": 262_144,
        "cli": "braid consume logs --lane=live --partition=0 --max=1 -o json",
        "trace_link": "https://traces.example/{trace_id}",
    }
