"""GENERATED messages of etcd's API and of the values kept in it; only `braid.stores.etcd` imports them.

They have a protobuf package and file names of their own: a second copy of etcd's `mvccpb` in one process would collide.
Nothing but this page is written by hand. After a change in `protos-private/`, from the root of a checkout:

    python -m grpc_tools.protoc --proto_path=braid/stores/etcd_wire/protos-private --python_out=. --mypy_out=quiet:. \
        braid/stores/etcd_wire/etcd.proto braid/stores/etcd_wire/stored.proto
"""
