"""Quotas of clients as the twin's controller keeps them. The twin knows no users, so it throttles nobody."""

from collections.abc import Mapping, Sequence

from braid.kernel.errors import Invalid
from braid.kernel.ports import QUOTA_KEYS, REQUEST_PERCENTAGE, QuotaEntity


class ClientQuotas:
    """The quotas that one cluster keeps.

    Attributes:
        changes: So many requests changed some.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._set: dict[QuotaEntity, dict[str, float]] = {}

    def describe(self, users: Sequence[str]) -> dict[QuotaEntity, Mapping[str, float]]:
        """See `KafkaAdmin.client_quotas`."""
        return {entity: dict(values) for entity, values in self._set.items() if entity.user in users}

    def alter(self, entity: QuotaEntity, changes: Mapping[str, float | None]) -> None:
        """See `KafkaAdmin.alter_client_quotas`."""
        for key, value in changes.items():
            _check(entity, key, value)
        values = {**self._set.pop(entity, {}), **changes}
        if kept := {key: float(value) for key, value in values.items() if value is not None}:
            self._set[entity] = kept
        self.changes += 1


def _check(entity: QuotaEntity, key: str, value: float | None) -> None:
    if key not in QUOTA_KEYS:
        raise Invalid(f"quotas of {entity}: unknown key {key}")
    if value is not None and (value <= 0 or (key != REQUEST_PERCENTAGE and value != int(value))):
        raise Invalid(f"quotas of {entity}: {key} cannot be {value}")
