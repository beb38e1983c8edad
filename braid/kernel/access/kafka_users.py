"""Kafka users of tenants: whose bytes Kafka's own quotas bound (KIP-546), and on which clusters. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from braid.kernel.errors import Invalid
from braid.kernel.ids import check_name
from braid.kernel.limits.access.rights import KAFKA_USER_CHARS_MAX, KAFKA_USERS_MAX, TENANT_KAFKA_USERS_MAX
from braid.kernel.limits.names import STREAM_CLUSTERS_MAX

_WHERE: Final = "spec.kafka_users"
_EVERYBODY: Final = {
    "*": "Kafka knows no pattern of users here",
    "<default>": "it stands for all users without a quota of their own",
    "ANONYMOUS": "that is everybody without credentials, Braid's services included",
}


@dataclass(frozen=True, slots=True)
class KafkaUser:
    """One user of Kafka's that belongs to a tenant.

    Attributes:
        name: As brokers know it, without `User:`; with a client certificate it is the subject.
        client_id: Only clients of this id; empty for all of the user's.
        clusters: Where it is the tenant's; empty for everywhere.
        take_over: Braid may replace a quota of this user that somebody else has set.
    """

    name: str
    client_id: str = ""
    clusters: tuple[str, ...] = ()
    take_over: bool = False

    def is_on(self, cluster: str) -> bool:
        """Whether it is the tenant's user on a cluster."""
        return not self.clusters or cluster in self.clusters

    def meets(self, other: "KafkaUser") -> bool:
        """Whether both are the same user of some cluster."""
        apart = bool(self.clusters and other.clusters) and not set(self.clusters) & set(other.clusters)
        return self.name == other.name and not apart


def check_kafka_users(users: Sequence[KafkaUser], others: Iterable[tuple[str, Sequence[KafkaUser]]]) -> None:
    """Checks the Kafka users of one tenant, beside those of others by their tenants' names.

    Raises:
        Invalid: there are too many, one is out of form or named twice, or one is another tenant's.
    """
    if len(users) > TENANT_KAFKA_USERS_MAX:
        message = f"{len(users)} Kafka users are more than {TENANT_KAFKA_USERS_MAX}"
        raise Invalid(message, field=_WHERE, remedy="let applications share users, or declare several tenants")
    taken = [(tenant, user) for tenant, named in others for user in named]
    if users and len(users) + len(taken) > KAFKA_USERS_MAX:
        message = f"the mesh's tenants would have {len(users) + len(taken)} Kafka users, more than {KAFKA_USERS_MAX}"
        raise Invalid(message, field=_WHERE, remedy="let applications share users")
    for position, user in enumerate(users):
        where = f"{_WHERE}[{position}]"
        _check_user(user, where)
        if any(user.meets(each) and user.client_id == each.client_id for each in users[:position]):
            raise Invalid(f"{user.name} is named twice for the same cluster", field=f"{where}.name")
        for tenant, each in taken:
            if user.meets(each):
                message = f"Kafka user {user.name} is of tenant {tenant} already"
                remedy = f"take it from there first (braid get tenant {tenant}), or name other clusters for each"
                raise Invalid(message, field=f"{where}.name", remedy=remedy)


def users_on(users: Iterable[KafkaUser], cluster: str) -> Iterator[KafkaUser]:
    """Users that are the tenant's on a cluster."""
    return (each for each in users if each.is_on(cluster))


def _check_user(user: KafkaUser, where: str) -> None:
    _check_text(user.name, f"{where}.name")
    if why := _EVERYBODY.get(user.name):
        raise Invalid(f"{user.name!r} is no user of a tenant: {why}", field=f"{where}.name", remedy="name its users")
    if user.name.startswith("User:"):
        remedy = f"write {user.name.removeprefix('User:')!r}: quotas name users without the kind of principal"
        raise Invalid(f"{user.name!r} begins with `User:`", field=f"{where}.name", remedy=remedy)
    if user.client_id:
        _check_text(user.client_id, f"{where}.client_id")
        if user.client_id in _EVERYBODY:
            remedy = "leave client_id out for all clients of the user"
            raise Invalid(f"{user.client_id!r} is no client id", field=f"{where}.client_id", remedy=remedy)
    if len(user.clusters) > STREAM_CLUSTERS_MAX:
        message = f"{len(user.clusters)} clusters are more than {STREAM_CLUSTERS_MAX}"
        raise Invalid(message, field=f"{where}.clusters", remedy="leave them out for every cluster")
    for position, cluster in enumerate(user.clusters):
        check_name(cluster, f"{where}.clusters[{position}]")


def _check_text(text: str, field: str) -> None:
    if not text or text != text.strip():
        raise Invalid(f"{text[:100]!r} is no name", field=field, remedy="write it as Kafka's brokers know it")
    if len(text) > KAFKA_USER_CHARS_MAX or not text.isprintable():
        message = f"{text[:100]!r} is longer than {KAFKA_USER_CHARS_MAX} characters, or holds some that cannot be shown"
        raise Invalid(message, field=field, remedy="write it as Kafka's brokers know it")
