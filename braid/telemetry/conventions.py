"""Names of attributes by OpenTelemetry's semantic conventions 1.45, with the ones before where somebody asks for both.

`OTEL_SEMCONV_STABILITY_OPT_IN=messaging/dup` asks for both, as the conventions of messaging say.
"""

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeVar

T = TypeVar("T")

SYSTEM: Final = "messaging.system.name"
OFFSET: Final = "kafka.offset"
CLUSTER_ID: Final = "kafka.cluster.id"
# The names of version 1.44, by those of 1.45.
_EARLIER: Final = {
    SYSTEM: "messaging.system",
    OFFSET: "messaging.kafka.offset",
    CLUSTER_ID: "messaging.kafka.cluster.id",
}
_OPT_IN: Final = "OTEL_SEMCONV_STABILITY_OPT_IN"


def messaging_attributes(attributes: Mapping[str, T]) -> dict[str, T]:
    """Returns attributes of messaging, with those of the earlier names beside them if both are asked for."""
    if not _asks_for_both(os.environ.get(_OPT_IN, "")):
        return dict(attributes)
    return {**attributes, **{_EARLIER[name]: value for name, value in attributes.items() if name in _EARLIER}}


@lru_cache(maxsize=8)
def _asks_for_both(opted_in: str) -> bool:
    return "messaging/dup" in {each.strip() for each in opted_in.split(",")}
