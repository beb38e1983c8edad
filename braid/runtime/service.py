"""The contract between a service (registry, assigner, lagmon, dlq) and the runtime that runs it: one protocol."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from braid.kernel.ports import RpcService
from braid.runtime.histories.kinds import AnyKind

if TYPE_CHECKING:
    from braid.runtime.replica import Replica


class Service(Protocol):
    """The parts of a service; `Replica` runs it, in a process or in simulation, unchanged.

    `rpc` is called once, before serving. The runtime adds `ListEndpoints`, `ReadMany`, `ListEvents`,
    `WatchEvents` and the archive's RPCs.
    """

    @property
    def name(self) -> str:
        """`registry`, `assigner`, `lagmon` or `dlq`: the name of its histories, its election and its RPC package."""
        ...

    @property
    def kinds(self) -> Mapping[str, AnyKind]:
        """Its kinds of histories, by `Kind.name`."""
        ...

    def rpc(self, replica: "Replica") -> RpcService:
        """Its handlers, by full method name (`braid.rpc.methods.method_path`)."""
        ...

    async def lead(self, replica: "Replica") -> None:
        """Runs while this replica leads, over state loaded to the head; cancelled the moment leadership ends.

        Returning early is fine; an error ends the process.
        """
        ...

    async def follow(self, replica: "Replica") -> None:
        """Runs from the first load on, leading or not. Returning early is fine; an error ends the process."""
        ...
