"""Quotas of clients (KIP-546), asked for and changed in the version that every supported release speaks.

Version 0 differs in its encoding alone, and brokers since Kafka 2.8 speak version 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Float64,
    Int8,
    Int16,
    Int32,
    Schema,
    TaggedFields,
)

from braid.kafka.errors import check
from braid.kafka.permissions import Need
from braid.kafka.protocol.wire import ANY_BROKER, Wire, bounded
from braid.kernel.errors import Refused
from braid.kernel.limits.kafka import KAFKA_CALL_SECONDS
from braid.kernel.ports import QUOTA_KEYS, QuotaEntity

_USER: Final = "user"
_CLIENT_ID: Final = "client-id"
_EXACT: Final = 0
_TOO_OLD: Final = "the cluster's brokers do not know quotas of users by protocol (KIP-546)"
_ENTITY: Final = CompactArray(
    ("entity_type", CompactString()), ("entity_name", CompactString()), ("tags", TaggedFields)
)
# Rows of an answer as aiokafka decodes them: the entity's parts, its values, tagged fields.
QuotaRows: TypeAlias = Iterable[
    tuple[Iterable[tuple[str, str | None, object]], Iterable[tuple[str, float, object]], object]
]


class DescribeClientQuotasResponseV1(Response):
    """The quotas of all entities that match."""

    API_KEY = 48
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", CompactString()),
        (
            "entries",
            CompactArray(
                ("entity", _ENTITY),
                ("values", CompactArray(("key", CompactString()), ("value", Float64), ("tags", TaggedFields))),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class DescribeClientQuotasRequestV1(RequestStruct):
    """The question for quotas, since Kafka 2.8."""

    API_KEY = 48
    API_VERSION = 1
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = DescribeClientQuotasResponseV1
    SCHEMA = Schema(
        (
            "components",
            CompactArray(
                ("entity_type", CompactString()),
                ("match_type", Int8),
                ("match", CompactString()),
                ("tags", TaggedFields),
            ),
        ),
        ("strict", Boolean),
        ("tags", TaggedFields),
    )


class DescribeClientQuotasRequest(Request[DescribeClientQuotasRequestV1]):
    """The quotas of one user, with those of its client ids."""

    API_KEY = 48

    def __init__(self, user: str) -> None:
        self._user = user

    def build(self, request_struct_class: type[DescribeClientQuotasRequestV1]) -> DescribeClientQuotasRequestV1:
        """The request on the wire."""
        return request_struct_class([(_USER, _EXACT, self._user, {})], False, {})


class AlterClientQuotasResponseV1(Response):
    """The outcome for each entity."""

    API_KEY = 49
    API_VERSION = 1
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "entries",
            CompactArray(
                ("error_code", Int16),
                ("error_message", CompactString()),
                ("entity", _ENTITY),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class AlterClientQuotasRequestV1(RequestStruct):
    """The change of quotas, since Kafka 2.8."""

    API_KEY = 49
    API_VERSION = 1
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = AlterClientQuotasResponseV1
    SCHEMA = Schema(
        (
            "entries",
            CompactArray(
                ("entity", _ENTITY),
                (
                    "ops",
                    CompactArray(
                        ("key", CompactString()), ("value", Float64), ("remove", Boolean), ("tags", TaggedFields)
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("validate_only", Boolean),
        ("tags", TaggedFields),
    )


class AlterClientQuotasRequest(Request[AlterClientQuotasRequestV1]):
    """Sets some quotas of one entity, and leaves the others. None removes one."""

    API_KEY = 49

    def __init__(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        self._entity = entity
        self._changes = sorted(changes.items())

    def build(self, request_struct_class: type[AlterClientQuotasRequestV1]) -> AlterClientQuotasRequestV1:
        """The request on the wire."""
        entity: list[Any] = [(_USER, self._entity.user, {})]
        if self._entity.client_id:
            entity.append((_CLIENT_ID, self._entity.client_id, {}))
        changes: list[Any] = [(key, value or 0.0, value is None, {}) for key, value in self._changes]
        return request_struct_class([(entity, changes, {})], False, {})


def told_quotas(rows: QuotaRows) -> dict[QuotaEntity, dict[str, float]]:
    """Reads quotas by whom they are about, from an answer's rows.

    Left out are quotas for everybody without one (a name that is null), and keys that are not for users.
    """
    found: dict[QuotaEntity, dict[str, float]] = {}
    for parts, values, _ in rows:
        named = {kind: name for kind, name, _ in parts}
        if None in named.values() or _USER not in named or not named.keys() <= {_USER, _CLIENT_ID}:
            continue
        entity = QuotaEntity(named[_USER] or "", named.get(_CLIENT_ID) or "")
        found[entity] = {key: value for key, value, _ in values if key in QUOTA_KEYS}
    return found


async def read_quotas(wire: Wire, users: Sequence[str]) -> dict[QuotaEntity, Mapping[str, float]]:
    """Reads quotas, with one request for each user: a cluster may have those of thousands.

    Raises:
        Refused: the brokers do not know the request.
    """
    found: dict[QuotaEntity, Mapping[str, float]] = {}
    for user in dict.fromkeys(users):
        async with bounded(KAFKA_CALL_SECONDS, f"reading quotas of user {user}"):
            try:
                answer = await wire.ask_any(DescribeClientQuotasRequest(user))
            except NotImplementedError as error:
                raise Refused(_TOO_OLD) from error
        check(answer.error_code, f"quotas of user {user}", answer.error_message, need=Need("DescribeConfigs"))
        found |= told_quotas(answer.entries or ())
    return found


async def change_quotas(wire: Wire, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
    """Sets some quotas of one entity, and leaves the others. None removes one.

    Raises:
        Refused: the brokers do not know the request.
    """
    async with bounded(KAFKA_CALL_SECONDS, f"setting quotas of {entity}"):
        try:
            answer = await wire.ask(ANY_BROKER, AlterClientQuotasRequest(entity, changes))
        except NotImplementedError as error:
            raise Refused(_TOO_OLD) from error
    for code, message, *_ in answer.entries:
        check(code, f"quotas of {entity}", message, need=Need("AlterConfigs"))
