"""The event store on etcd. `EtcdStore` is the adapter; everything else here is its own business."""

from braid.stores.etcd.store import EtcdStore

__all__ = ["EtcdStore"]
