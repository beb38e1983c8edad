"""JSON as browsers read it. Numbers that JSON does not know become null."""

import json
import math

from braid.rpc.documents import Value


def json_bytes(value: Value) -> bytes:
    """The value as compact UTF-8. Infinite numbers and NaN are null: browsers refuse them."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _finite(value: Value) -> Value:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return value
