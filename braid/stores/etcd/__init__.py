"""The event store on etcd. `EtcdStore` is the adapter; every other module here is private to it."""

from braid.stores.etcd.store import EtcdStore

__all__ = ["EtcdStore"]
