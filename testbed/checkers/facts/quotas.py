"""Facts about quotas of Kafka users, as the clusters themselves keep them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaChanged:
    """A cluster was asked to set a value, or to remove it (None), and did so."""

    cluster: str
    user: str
    client_id: str
    key: str
    value: float | None
