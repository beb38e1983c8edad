"""Events of kind `tenants` ⇄ protobuf at rest (`registry/v1/tenant.proto`); states ⇄ bytes for snapshots."""

from collections.abc import Iterable
from dataclasses import fields
from typing import Final

from braid.api.registry.v1 import tenant_pb2 as pb
from braid.kernel.access.kafka_users import KafkaUser
from braid.kernel.access.tenants import Quotas, Tenant
from braid.kernel.errors import CorruptHistory
from braid.runtime.access.tenant_history import (
    Command,
    Event,
    TenantDeleted,
    TenantsDecider,
    TenantSet,
    TenantsState,
)
from braid.runtime.histories.kinds import Kind
from braid.runtime.histories.message_codec import MessageCodec

_QUOTAS: Final = tuple(each.name for each in fields(Quotas))


def tenant_message(tenant: Tenant, use: pb.TenantUse | None = None) -> pb.Tenant:
    """A tenant as a message, with its use where it is known."""
    return pb.Tenant(
        name=tenant.name,
        spec=_spec(tenant.principals, tenant.quotas, tenant.kafka_users),
        use=use,
        changed_by=tenant.changed_by,
        change_time_ms=tenant.changed_ms,
    )


def read_quotas(message: pb.TenantQuotas) -> Quotas:
    """Quotas from their message; not checked."""
    return Quotas(**{name: getattr(message, name) for name in _QUOTAS})


def read_kafka_users(messages: Iterable[pb.KafkaUser]) -> tuple[KafkaUser, ...]:
    """Kafka users from their messages; not checked."""
    return tuple([KafkaUser(each.name, each.client_id, tuple(each.clusters), each.take_over) for each in messages])


def _spec(principals: tuple[str, ...], quotas: Quotas, users: tuple[KafkaUser, ...]) -> pb.TenantSpec:
    written = pb.TenantQuotas(**{name: getattr(quotas, name) for name in _QUOTAS})
    named = [
        pb.KafkaUser(name=each.name, client_id=each.client_id, clusters=each.clusters, take_over=each.take_over)
        for each in users
    ]
    return pb.TenantSpec(principals=principals, quotas=written if quotas != Quotas() else None, kafka_users=named)


def _read(message: pb.Tenant) -> Tenant:
    spec = message.spec
    return Tenant(
        message.name,
        tuple(spec.principals),
        read_quotas(spec.quotas),
        message.changed_by,
        message.change_time_ms,
        read_kafka_users(spec.kafka_users),
    )


def _message(event: Event) -> pb.TenantEvent:
    match event:
        case TenantSet(name, principals, quotas, users):
            return pb.TenantEvent(tenant_set=pb.TenantSet(name=name, spec=_spec(principals, quotas, users)))
        case TenantDeleted(name):
            return pb.TenantEvent(tenant_deleted=pb.TenantDeleted(name=name))


def _event(message: pb.TenantEvent) -> Event:
    match message.WhichOneof("event"):
        case "tenant_set":
            spec = message.tenant_set.spec
            users = read_kafka_users(spec.kafka_users)
            return TenantSet(message.tenant_set.name, tuple(spec.principals), read_quotas(spec.quotas), users)
        case "tenant_deleted":
            return TenantDeleted(message.tenant_deleted.name)
        case _:
            raise CorruptHistory("the event is of an unknown type", remedy="run a newer release")


def _state_message(state: TenantsState) -> pb.ListTenantsResponse:
    return pb.ListTenantsResponse(tenants=map(tenant_message, state.all()))


def _state(message: pb.ListTenantsResponse) -> TenantsState:
    return TenantsState({each.name: _read(each) for each in message.tenants})


TENANTS: Final[Kind[TenantsState, Command, Event]] = Kind(
    "tenants",
    TenantsDecider(),
    MessageCodec(pb.TenantEvent, _message, _event, pb.ListTenantsResponse, _state_message, _state),
)
